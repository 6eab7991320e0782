"""Make Figure 1: studies/practice/figure1.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("figure1")
