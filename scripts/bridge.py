"""k* and v* inside the Transformer: studies/practice/bridge.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("bridge")
