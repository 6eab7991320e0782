"""Probe any encoder or decoder: studies/practice/probes.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("probe")
