"""Making the result of a study: run the study, write its folder and print what it says.

One rule holds for all commands: a result that was made with the same settings stays as it is, and
one that was made with other settings is replaced only with --overwrite.
"""

import functools
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from studies.rendering import as_text
from studies.settings import differences, settings_of
from studies.storage.results import SETTINGS, check_output, is_current, read_json, result_folder
from studies.study import Need, Options, Result, Study, Tables
from studies.workers import in_parallel

MOST_NAMED = 3  # settings in an error line


def is_made(study: Study, options: Options) -> bool:
    """Whether the result is there and current."""
    return is_current(study.output_of(options), settings_of(study, options))


def make(study: Study, options: Options) -> Path:
    """Make a result for a user: an existing one is replaced only with --overwrite."""
    options = options.resolved()
    folder = study.output_of(options)
    if not options.overwrite:
        if is_made(study, options):
            print(f"unchanged: {folder}")
            return folder
        check_settings(study, options)
        if (folder / SETTINGS).exists():
            raise FileExistsError(
                f"{folder} was made by other code or of other inputs; "
                "choose another folder or add --overwrite"
            )
    check_output(folder, overwrite=options.overwrite, study=study.name)
    ensure_all(study.needs(options))
    settings = settings_of(study, options)
    result = study.run(options)
    if result is not None:
        with result_folder(folder, settings, overwrite=options.overwrite) as partial:
            write(result, partial)
        if result.scratch:
            shutil.rmtree(result.scratch, ignore_errors=True)
        tables = Tables(folder)
        told = as_text([*map(str, study.findings(tables)), *study.says(tables)])
        lines = [study.title, told, result.remark]
        print("\n".join([*filter(None, lines), f"written to {folder}"]), flush=True)
    return folder


def write(result: Result, folder: Path) -> None:
    for stem, table in result.tables.items():
        table.to_parquet(folder / f"{stem}.parquet", index=False)
    for stem, figure in result.figures.items():
        figure.savefig(folder / f"{stem}.png")
        figure.savefig(folder / f"{stem}.pdf")
    if result.write:
        result.write(folder)


def ensure(study: Study, options: Options) -> Path:
    """Make a result for another study: a result of older code is made again."""
    if not is_made(study, options):
        check_settings(study, options)
        options = replace(options, overwrite=True)
    return make(study, options)


def ensure_all(needs: Iterable[Need]) -> None:
    """Call ``ensure`` for all studies with their options; those of one study one per core."""
    for study, group in groupby(needs, key=lambda need: need[0]):
        options = [each for _, each in group]
        if len(options) == 1:  # the study may have workers of its own
            ensure(study, options[0])
        else:
            in_parallel(functools.partial(ensure, study), options, study.name)


def check_settings(study: Study, options: Options) -> None:
    """Refuse to replace a result that somebody made with other settings."""
    folder = study.output_of(options)
    if options.overwrite or not (folder / SETTINGS).is_file():
        return
    if changes := differences(read_json(folder / SETTINGS), settings_of(study, options)):
        others = f" and {len(changes) - MOST_NAMED} more" if len(changes) > MOST_NAMED else ""
        raise FileExistsError(
            f"{folder} was made with other settings ({', '.join(changes[:MOST_NAMED])}{others}); "
            "choose another folder or add --overwrite"
        )


def with_needs(needs: Iterable[Need]) -> Iterator[Need]:
    """All studies with their options, each after the studies that it needs."""
    for study, options in needs:
        yield from with_needs(study.needs(options))
        yield study, options
