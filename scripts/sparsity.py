"""Attention by layer and head: studies/practice/sparsity.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("sparsity")
