"""Run studies of the idealised model: the paper's five experiments, and those beyond the paper."""

from dataclasses import fields

from studies.catalogue import THEORY
from studies.command_line import Command, study_command
from studies.making import make
from studies.study import SlrOptions
from studies.theory import paper


def run_paper(options: paper.Options) -> None:
    for study in paper.STUDIES:
        make(study, options)


def run_all(options: SlrOptions) -> None:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    for study in THEORY:
        make(study, study.options(**values))


COMMANDS: dict[str, Command] = {
    **{study.name: study_command(study) for study in THEORY},
    "paper": Command(paper.Options, run_paper, "The paper's five experiments."),
    "all": Command(SlrOptions, run_all, __doc__ or ""),  # also if no study is named
}
