"""Test causally what the states of any model do: studies/practice/causal.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("causal")
