"""Controls for the probes of a model: studies/practice/controls.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("controls")
