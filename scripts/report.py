"""Make the report: studies/pages/report.py."""

from studies.command_line import run

if __name__ == "__main__":
    run("report")
