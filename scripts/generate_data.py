"""Write the synthetic sentiment dataset: studies/practice/dataset.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("generate-data")
