"""Write docs/results.md: studies/pages/results.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("results-page")
