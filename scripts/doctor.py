"""Twelve checks for silent faults: studies/tools/doctor.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("doctor")
