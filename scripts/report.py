"""Make the report: one page with every result, that opens from disk and needs no network.

Shows what is in the results folder: claims, figures with captions and commands, Figure 1 beside the
published numbers, an interactive token view and phase portrait, environment and seeds. Of a stage
that is not there it says which command makes it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from code_version import code_sha256
from command_line import run
from report_environment import settings_file, stage_folders
from report_figures import FIGURES, uncaptioned
from report_page import MODELS, PARTS, render
from run_directory import check_output, run_directory


@dataclass(frozen=True)
class Config:
    results: Path = Path("results")
    """Folder with the results to show."""
    output: Path = Path("results/report")
    """Folder for index.html."""
    overwrite: bool = False
    """Replace an earlier report."""


def settings_of(config: Config) -> dict[str, Any]:
    """The code, the page's parts, and the content of every file that the page is made of."""
    return {
        "code_sha256": code_sha256(__file__),
        "parts": {path.name: sha256(path) for path in sorted(PARTS.iterdir())},
        "inputs": {
            path.relative_to(config.results).as_posix(): sha256(path)
            for path in inputs(config.results)
        },
    }


def inputs(results: Path) -> list[Path]:
    paths = [results / "claims.json", results / "figure1" / "bars.parquet"]
    paths += [results / figure.path for figure in (*FIGURES, *uncaptioned(results))]
    paths += [results / "models" / name / "model.safetensors" for name in MODELS]
    paths += [path for folder in stage_folders(results) if (path := settings_file(folder))]
    return sorted(path for path in paths if path.is_file())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(config: Config) -> None:
    check_output(config.output, overwrite=config.overwrite)
    if not config.results.is_dir():
        raise ValueError(f"{config.results} is no folder; python scripts/reproduce.py makes it")
    page = render(config.results)
    with run_directory(config.output, settings_of(config), overwrite=config.overwrite) as folder:
        (folder / "index.html").write_text(page, encoding="utf-8")
    size, n_missing = len(page.encode()) / 1e6, page.count('class="missing"')
    print(f"{page.count('<img ')} figures, {n_missing} missing, {size:.1f} MB")
    print(f"written to {config.output / 'index.html'}")


if __name__ == "__main__":
    run(main, Config, __doc__)
