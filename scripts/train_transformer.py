"""Train a small Transformer: studies/practice/transformer.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("train")
