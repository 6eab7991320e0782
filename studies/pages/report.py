"""Make the report: one page with every result, which opens from disk and needs no network.

The page shows what is in the results folder: claims, texts and figures of every study, an
interactive token view and phase portrait, environment and seeds. For a missing result it shows the
command that makes it.
"""

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from probing.models.packaged import file_sha256
from studies.catalogue import PRACTICE, STUDIES, THEORY
from studies.pages.claims import CLAIMS, as_table, is_left_out, kept_claims, summary
from studies.pages.environment import environment
from studies.pages.pictures import as_png, read_picture, scaled_down
from studies.pages.reading import is_there, made_again_by, reading
from studies.practice import figure1
from studies.rendering import as_markdown, cells_of
from studies.storage.tables import ResultError, reason_of
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Study, Tables, study

PARTS = Path(__file__).parent / "html"
MAX_WIDTH = 1600  # pixels of an image: sharp on a page of 62rem with two device pixels per pixel
TRAIN = "python scripts/train_transformer.py"
MODELS = {  # folder: the entry in the page's menu, and the command that trains the model
    "tiny-0": ("tiny-0: 1 layer, 1 head", f"{TRAIN} --snapshots --output results/models/tiny-0"),
    "small-0": (
        "small-0: 2 layers, 4 heads",
        f"{TRAIN} --preset small --output results/models/small-0",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    results: Path = Path("results")
    """Folder with the results to show."""
    output: Path = Path("results/report")
    """Folder for index.html."""


def inputs(options: Options) -> dict[str, str]:
    """SHA-256 of every file that the page is made from, its templates included."""
    shown = [options.results / study.folder for study in STUDIES]
    shown += [options.results / "models" / name for name in MODELS]
    files = [file for folder in shown for file in folder.glob("*") if file.suffix != ".pdf"]
    files += [options.results / CLAIMS, *PARTS.rglob("*")]
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

    def write(folder: Path) -> None:
        (folder / "index.html").write_text(page, encoding="utf-8")

    return Result({}, {}, remark, write)


def render(results: Path) -> str:
    """The whole page; a study without results is one line with the command that makes it."""
    claims = kept_claims(results)
    shown = [study for study in PRACTICE if not is_left_out(results, study)]
    practice = [study for study in shown if study is not figure1.STUDY]
    page = templates().get_template("page.html")
    return page.render(
        claims=as_table(claims) if claims else None,
        summary=summary(claims),
        figure1=section_of(results, figure1.STUDY),
        transformer=[section_of(results, study) for study in practice],
        slr=[section_of(results, study) for study in THEORY],
        **token_values(results),
        **environment(results),
    )


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
    environment.tests["measure"] = re.compile(r"[-+]?\d").match
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
    """The picture of a PNG file, scaled down to at most MAX_WIDTH."""
    image = scaled_down(whole := read_picture(path), MAX_WIDTH)
    content = path.read_bytes() if image is whole else as_png(image)
    uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return Picture(uri, image.width, image.height, caption)


def token_values(results: Path) -> dict[str, Any]:
    """The token views of the trained models, and the commands that train these models."""
    folders = {name: results / "models" / name for name in MODELS}
    present = [name for name in MODELS if (folders[name] / "model.safetensors").is_file()]
    if not present:
        return {"views": [], "commands": [command for _, command in MODELS.values()]}
    from studies.pages.tokens import N_TRAIN

    return {
        "views": [view_of(folders[name], *MODELS[name]) for name in present],
        "commands": [MODELS[name][1] for name in present],
        "n_sentences": N_TRAIN,
    }


def view_of(folder: Path, entry: str, command: str) -> dict[str, Any]:
    """The token view of a trained model; a model that cannot be shown is refused in one line."""
    from studies.pages import tokens

    with made_again_by(command, folder):
        try:
            return tokens.token_view(folder, entry)
        except (ValueError, OSError):
            raise
        except Exception as error:  # a model of other sentences or labels fails anywhere
            raise ResultError(f"{folder} cannot be shown ({reason_of(error)})") from error


def says(tables: Tables) -> Said:
    return [f"Open {tables.folder / 'index.html'} in a browser."]


STUDY = study(__name__, "The report", "python scripts/report.py")
