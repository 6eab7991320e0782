"""Studies of the idealised model: studies/theory/, one file per study."""

from studies.command_line import run

if __name__ == "__main__":
    run("slr")
