"""The command line of every script: a frozen dataclass in, one clear line out when it fails."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

import tyro

Config = TypeVar("Config")


def run(
    main: Callable[[Config], None], config_class: type[Config], description: str | None
) -> None:
    """Parse the command line into a config and hand it to main.

    Bad input is a ValueError (with a message of one line) or an OSError: it ends the program
    with that line and exit code 2. Anything else is a bug, and shows its traceback; with
    SLR_TRACEBACK=1 in the environment everything does.
    """
    config = parse(config_class, description)
    try:
        main(config)
    except (ValueError, OSError) as error:
        if os.environ.get("SLR_TRACEBACK"):
            raise
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted; nothing was left half-written", code=130)


def parse(
    config_class: type[Config], description: str | None, args: Sequence[str] | None = None
) -> Config:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                config_class,
                description=description,
                args=args,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        fail(_one_line(complaint.getvalue()) + " (--help shows the options)")


def _one_line(box: str) -> str:
    """The message in tyro's box, whose first line is a title and whose end is advice."""
    lines = [line.strip("│ ").strip() for line in box.splitlines()[1:]]
    advice = next((i for i, line in enumerate(lines) if line.startswith("──")), len(lines))
    return " ".join(lines[:advice])


def fail(message: str, code: int = 2) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    raise SystemExit(code)
