"""Score probes on longer texts than those of training: studies/practice/length.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("length")
