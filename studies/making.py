"""Making the result of a study: run the study, write its folder and print what it says."""

import functools
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from studies.rendering import as_text
from studies.results import SETTINGS, check_output, is_current, result_folder
from studies.settings import settings_of
from studies.study import Options, Result, Study, Tables
from studies.workers import in_parallel


def is_made(study: Study, options: Options) -> bool:
    """Whether the result is complete and current."""
    return is_current(study.output_of(options), settings_of(study, options))


def make(study: Study, options: Options) -> Path:
    """Make a result for a user: an existing one is replaced only with --overwrite."""
    folder, settings = study.output_of(options), settings_of(study, options)
    if not options.overwrite:
        if is_current(folder, settings):
            print(f"unchanged: {folder}")
            return folder
        if (folder / SETTINGS).exists():
            raise FileExistsError(
                f"{folder} was made with other settings, or changed since; choose another folder "
                "or add --overwrite"
            )
    check_output(folder, overwrite=options.overwrite)
    result = study.run(options)
    if result is not None:
        with result_folder(folder, settings, overwrite=options.overwrite) as partial:
            write(result, partial)
        if result.scratch:
            shutil.rmtree(result.scratch, ignore_errors=True)
        lines = [study.title, as_text(study.says(Tables(folder))), result.remark]
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
    """Make a result for another study, unless it is complete and current already."""
    return make(study, replace(options, overwrite=options.overwrite or not is_made(study, options)))


def ensure_all(study: Study, options: Sequence[Options]) -> None:
    """Call ``ensure`` for all of the options, one per core at a time."""
    in_parallel(functools.partial(ensure, study), options, study.name)
