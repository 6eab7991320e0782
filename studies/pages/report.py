"""Make the report: one page that runs the model and shows every result, without a network.

It begins with a Transformer that runs in the page, on the reader's own sentence; then come a phase
portrait, the findings, the figures and texts of every study, environment and seeds. For a missing
result the page shows the command that makes it.
"""

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from probing.models.packaged import file_sha256
from studies.catalogue import PRACTICE, STUDIES, THEORY
from studies.pages.environment import environment
from studies.pages.findings import grouped, is_left_out, read_findings, summary
from studies.pages.pictures import read_picture, small_png
from studies.pages.reading import is_there, made_again_by, reading
from studies.practice import bridge, figure1
from studies.rendering import as_markdown, cells_of
from studies.storage.tables import ResultError, reason_of
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Study, Tables, study

PARTS = Path(__file__).parent / "html"
MAX_WIDTH = 1600  # pixels of an image: sharp on a page of 62rem with two device pixels per pixel
MOST_MEGABYTES = 5
LIVE = Path("models/tiny-0")  # the model that runs in the page
TRAIN = f"python scripts/train_transformer.py --snapshots --output results/{LIVE}"


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    results: Path = Path("results")
    """Folder with the results to show."""
    output: Path = Path("results/report")
    """Folder for index.html."""


def inputs(options: Options) -> dict[str, str]:
    """SHA-256 of every file that the page is made from, its templates included."""
    shown = [options.results / study.folder for study in STUDIES]
    files = [file for folder in shown for file in folder.glob("*") if file.suffix != ".pdf"]
    files += (options.results / LIVE).rglob("*")  # with its snapshots
    files += PARTS.rglob("*")
    return {
        f"{file.parent.name}/{file.name}": file_sha256(file)
        for file in sorted(files)
        if file.is_file()
    }


def run(options: Options) -> Result:
    if not options.results.is_dir():
        raise ValueError(f"{options.results} is not a folder; python scripts/reproduce.py makes it")
    page = render(options.results)
    n_missing, size = page.count('class="missing"'), len(page.encode()) / 1e6
    remark = f"{page.count('<img ')} figures, {n_missing} missing, {size:.1f} MB"
    if size > MOST_MEGABYTES:
        remark += f" (more than {MOST_MEGABYTES}: slow to open on a telephone)"

    def write(folder: Path) -> None:
        (folder / "index.html").write_text(page, encoding="utf-8")

    return Result({}, {}, remark, write)


def render(results: Path) -> str:
    """The whole page; a study without results is one line with the command that makes it."""
    from studies.pages.portrait import portrait_values  # which needs numba

    findings = read_findings(results)
    shown = [study for study in PRACTICE if not is_left_out(results, study)]
    practice = [study for study in shown if study is not figure1.STUDY]
    page = templates().get_template("page.html")
    return page.render(
        summary=summary(findings),
        findings=grouped(findings),
        figure1=section_of(results, figure1.STUDY),
        transformer=[section_of(results, study) for study in practice],
        slr=[section_of(results, study) for study in THEORY],
        **live_values(results),
        portrait=portrait_values(),
        **environment(results),
    )


def live_values(results: Path) -> dict[str, Any]:
    """The model that runs in the page, and what the studies bridge and figure1 say beside it."""
    beside = ("paths", "causal", "n_seeds", "cosines", "found")
    values: dict[str, Any] = {"live": None, **dict.fromkeys(beside)}
    values |= {"train": TRAIN, "bridge": bridge.STUDY}
    if not (results / LIVE / "model.safetensors").is_file():
        return values
    from studies.pages import live, story

    with made_again_by(TRAIN, results / LIVE):
        try:
            values["live"] = live.live_model(results / LIVE)
        except (ValueError, OSError):
            raise
        except Exception as error:  # a model of other sentences or labels fails anywhere
            raise ResultError(f"{results / LIVE} cannot be shown ({reason_of(error)})") from error
    if is_there(results, bridge.STUDY):
        with reading(results, bridge.STUDY) as tables:
            values["paths"] = story.theory_paths(tables)
            values["causal"] = story.causal_effects(tables)
            values["n_seeds"] = int(tables["causal"].query("model == 'tiny'")["seed"].nunique())
            values["cosines"] = story.cosines(tables)
    if is_there(results, figure1.STUDY):
        with reading(results, figure1.STUDY) as tables:
            values["found"] = story.found_words(tables)
    return values


def templates() -> Environment:
    """The page's templates, which escape every value; a missing value is an error."""
    environment = Environment(
        loader=FileSystemLoader(PARTS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # NaN is not JSON: it is an error here, where otherwise the page would not start.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "allow_nan": False, "separators": (",", ":"),
    }  # fmt: skip
    environment.filters["cells"] = cells_of
    environment.tests["measure"] = re.compile(
        r"[-+]?[\d.,]+(e[-+]?\d+)?%?( [(\[].*[)\]])?"
    ).fullmatch
    environment.globals["source"] = lambda name: (PARTS / name).read_text(encoding="utf-8")
    return environment


@dataclass(frozen=True)
class Picture:
    """A PNG as a data URI, with its size in pixels."""

    uri: str
    width: int
    height: int
    caption: str


@dataclass(frozen=True)
class Section:
    """A study with its pictures and its text; ``said`` is None if the result is missing."""

    study: Study
    pictures: tuple[Picture, ...] = ()
    said: Said | None = None


def section_of(results: Path, study: Study) -> Section:
    """The section of a study, empty if its result is missing."""
    if not is_there(results, study):
        return Section(study)
    with reading(results, study) as tables:
        pictures = [
            picture(tables.folder / f"{stem}.png", caption)
            for stem, caption in study.figures.items()
        ]
        said = study.says(tables)
        as_markdown(said)  # a table that cannot be shown fails here, where its study is known
    return Section(study, tuple(pictures), said)


def picture(path: Path, caption: str) -> Picture:
    """The picture of a PNG file, at most MAX_WIDTH wide, as the page embeds it."""
    image = read_picture(path)
    uri = f"data:image/png;base64,{base64.b64encode(small_png(image, MAX_WIDTH)).decode()}"
    width = min(image.width, MAX_WIDTH)
    return Picture(uri, width, max(1, round(image.height * width / image.width)), caption)


def says(tables: Tables) -> Said:
    return [f"Open {tables.folder / 'index.html'} in a browser."]


STUDY = study(__name__, "The report", "python scripts/report.py")
