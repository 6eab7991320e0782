"""A saved probe on new texts: studies/tools/apply.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("apply")
