"""Make every result: studies/reproduce.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("reproduce")
