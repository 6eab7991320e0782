"""Hidden states of a dataset in a folder, for probes: studies/tools/extract.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("extract")
