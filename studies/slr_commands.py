"""Run studies of the idealised model: the paper's five experiments, and those beyond the paper."""

from dataclasses import dataclass, fields
from typing import Any

from studies.catalogue import THEORY
from studies.command_line import Command, study_command
from studies.making import make
from studies.study import Options, SlrOptions, Study
from studies.theory import paper


@dataclass(frozen=True, kw_only=True)
class AllOptions(SlrOptions):
    full: bool = False
    """Run all repetitions of all studies, not only some (takes much longer)."""


def options_for(study: Study, **values: Any) -> Options:
    """The options of a study, from those of the values that it knows (some have no `full`)."""
    known = {field.name for field in fields(study.options)}
    return study.options(**{name: value for name, value in values.items() if name in known})


def run_paper(options: paper.Options) -> None:
    for study in paper.STUDIES:
        make(study, options)


def run_all(options: AllOptions) -> None:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    for study in THEORY:
        make(study, options_for(study, **values))


COMMANDS: dict[str, Command] = {
    **{study.name: study_command(study) for study in THEORY},
    "paper": Command(paper.Options, run_paper, "The paper's five experiments."),
    "all": Command(AllOptions, run_all, __doc__ or ""),  # also if no study is named
}
