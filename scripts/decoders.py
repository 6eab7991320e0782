"""Look for k* and v* in 1-layer decoders beside BERT: studies/practice/decoders.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("decoders")
