"""How pages read results: a result that cannot be shown is refused in one line.

The line names the file and the command that makes the result again. For a result that was never
made pages show its command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.storage.results import SETTINGS, study_of
from studies.storage.tables import ResultError, Tables, reason_of
from studies.study import Study


def is_there(results: Path, study: Study) -> bool:
    """Whether the result of a study was made."""
    return (results / study.folder / SETTINGS).exists()


@contextmanager
def reading(results: Path, study: Study) -> Iterator[Tables]:
    """The tables of a study's result; what fails in the block is refused in one line."""
    tables = Tables(results / study.folder)
    with made_again_by(study.command, tables.folder):
        try:
            yield tables
        except (ResultError, OSError):
            raise
        except Exception as error:
            # On tables without their columns, or with other types, the code of a study fails
            # anywhere and with anything; SLR_TRACEBACK=1 shows where.
            files = ", ".join(dict.fromkeys(tables.read)) or "its files"
            raise ResultError(
                f"{tables.folder} ({files}) lacks what pages show ({reason_of(error)})"
            ) from error


@contextmanager
def made_again_by(command: str, folder: Path | None = None) -> Iterator[None]:
    """Say by which command a file that cannot be read in the block is made again.

    ``folder`` is the result that the command has to replace.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        if folder:
            ours = study_of(folder) is not None
            command = f"{command} --overwrite" if ours else f"delete the folder, then {command}"
        raise ResultError(f"{error}; make it again: {command}") from error
