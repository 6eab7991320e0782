"""The command line: `slr-probing COMMAND`, and each command as a script of its own.

A command is a module with a STUDY, or with Options and main. Its options are a frozen dataclass;
when it fails, one clear line says why.
"""

import contextlib
import functools
import importlib
import io
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from studies.ending import ending, fail

Options = TypeVar("Options")

HELP = ("-h", "--help")
NARROWEST = 40  # columns of a help text
COMMANDS = {  # name: its module and its script
    "generate-data": ("studies.practice.dataset", "generate_data.py"),
    "train": ("studies.practice.transformer", "train_transformer.py"),
    "extract": ("studies.tools.extract", "extract.py"),
    "probe": ("studies.practice.probes", "probe.py"),
    "apply": ("studies.tools.apply", "apply.py"),
    "sparsity": ("studies.practice.sparsity", "sparsity.py"),
    "controls": ("studies.practice.controls", "controls.py"),
    "causal": ("studies.practice.causal", "causal.py"),
    "doctor": ("studies.tools.doctor", "doctor.py"),
    "figure1": ("studies.practice.figure1", "figure1.py"),
    "decoders": ("studies.practice.decoders", "decoders.py"),
    "bridge": ("studies.practice.bridge", "bridge.py"),
    "length": ("studies.practice.length", "length.py"),
    "slr": ("studies.slr_commands", "run_slr.py"),
    "reproduce": ("studies.reproduce", "reproduce.py"),
    "report": ("studies.pages.report", "report.py"),
    "results-page": ("studies.pages.results", "results_page.py"),
}


@dataclass(frozen=True)
class Command:
    """A command: its options, the function that takes them, and its help text."""

    options: type[Any]
    main: Callable[[Any], object]
    about: str


def main() -> None:
    """The installed command, slr-probing."""
    name, *arguments = sys.argv[1:] or ["--help"]
    with ending(last=True):
        if is_one_of(COMMANDS, name, "slr-probing", "command", find):
            _run(name, arguments, f"slr-probing {name}")


def run(name: str, arguments: Sequence[str] | None = None, prog: str | None = None) -> None:
    """Parse the command line into options and pass them to the command.

    Without ``arguments`` they are those of the program, which ends with the command.
    """
    with ending(last=arguments is None):
        arguments = sys.argv[1:] if arguments is None else arguments
        _run(name, arguments, prog or Path(sys.argv[0]).name)


def _run(name: str, arguments: Sequence[str], prog: str) -> None:
    check_ranks()
    command = find(name)
    if isinstance(command, dict):  # several studies: the first word names one
        word, *arguments = arguments or ["--help"]
        if word not in HELP and word.startswith("-"):
            word, arguments = "all", [word, *arguments]
        if not is_one_of(command, word, prog, "study", command.__getitem__):
            return
        command, prog = command[word], f"{prog} {word}"
    command.main(parse(command.options, command.about, arguments, prog))


def check_ranks() -> None:
    """Refuse a RANK that torchrun did not set: all but the first of its processes write nothing."""
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ValueError(
            f"RANK is {rank!r} of WORLD_SIZE {size!r} in the environment; unset both, or start "
            "the processes with torchrun"
        )


def find(name: str) -> Any:
    """The Command of this name, or a dictionary of Commands by study."""
    module = importlib.import_module(COMMANDS[name][0])
    if hasattr(module, "COMMANDS"):
        return module.COMMANDS
    if hasattr(module, "main"):
        return Command(module.Options, module.main, module.__doc__ or "")
    return study_command(module.STUDY)


def study_command(study: Any) -> Command:
    from studies.making import make

    return Command(study.options, functools.partial(make, study), study.about)


def is_one_of(
    names: Iterable[str], word: str, prog: str, kind: str, find: Callable[[str], Any]
) -> bool:
    """Whether the word is one of the names; for -h a help text with all names is printed."""
    names = list(names)
    if word in names:
        return True
    if word not in HELP:
        fail(f"no {kind} {word!r}; there are {', '.join(names)}")
    usage = f"{prog} {kind.upper()}"
    print(f"usage: {usage} [options]\n\n{usage} --help shows the options.\n")
    width = max(map(len, names)) + 2
    for name in names:
        command = find(name)
        about = command["all"].about if isinstance(command, dict) else command.about
        print(f"  {name:{width}}{about.strip().splitlines()[0]}")
    return False


def parse(options: type[Options], about: str, arguments: Sequence[str], prog: str) -> Options:
    import tyro  # here, where Ctrl-C already ends the program with one line

    check_once(options, arguments)
    if shutil.get_terminal_size().columns < NARROWEST:  # tyro would never end
        os.environ["COLUMNS"] = str(NARROWEST)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            config = (tyro.conf.FlagCreatePairsOff,)
            return tyro.cli(options, prog=prog, description=about, args=arguments, config=config)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        why = _one_line(complaint.getvalue()).removeprefix(f"Error parsing {options.__name__}: ")
        fail(f"{why} (--help shows the options)")


def _one_line(box: str) -> str:
    """The message in tyro's box, without the title above it and the advice below it.

    Where the terminal does not write UTF-8, the box is of dashes, and one line of them is above it.
    """
    lines = [line.strip("│| ") for line in box.splitlines()[1:]]
    message = itertools.dropwhile(_is_rule, lines)
    return " ".join(itertools.takewhile(lambda line: not _is_rule(line), message))


def _is_rule(line: str) -> bool:
    return bool(line) and not line.strip("─-")


def check_once(options: type[Any], arguments: Sequence[str]) -> None:
    """Refuse an option of several values that is given twice: the first would be lost silently."""
    several = [field.name for field in fields(options) if isinstance(field.default, tuple)]
    for flag in ("--" + name.replace("_", "-") for name in several):
        given = [word for word in arguments if word == flag or word.startswith(f"{flag}=")]
        if len(given) > 1:
            raise ValueError(f"{flag} is given twice; write all its values behind one {flag}")
