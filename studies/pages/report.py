"""Make the report: one page with every result, that opens from disk and needs no network.

Shows what is in the results folder: claims, what every study says and draws, an interactive token
view and phase portrait, environment and seeds. Of a stage that is not there it says which command
makes it.
"""

import base64
import hashlib
import html
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from studies.catalogue import PRACTICE, STUDIES, THEORY
from studies.pages.claims import CLAIMS, as_table, kept_claims, summary
from studies.pages.environment import environment
from studies.practice import figure1
from studies.rendering import as_html, html_table, scroll_box
from studies.results import is_whole
from studies.study import Options as StudyOptions
from studies.study import Result, Said, Study, Tables, study

PARTS = Path(__file__).parent / "html"
SCRIPTS = ("scroll.js", "flow.js", "portrait.js", "tokens.js")
MAX_WIDTH = 1600  # pixels of an image: sharp on a page of 62rem with two device pixels per pixel
TRAIN = "python scripts/train_transformer.py"
MODELS = {  # folder: what the reader chooses, and the command that makes it
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
    """The content of every file that the page is made of, its own parts included."""
    shown = [options.results / study.folder for study in STUDIES]
    shown += [options.results / "models" / name for name in MODELS]
    files = [file for folder in shown for file in folder.glob("*") if file.suffix != ".pdf"]
    files += [options.results / CLAIMS, *PARTS.iterdir()]
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
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
    """The whole page. A study that is not in ``results`` is a line with the command for it."""
    tokens, data = token_section(results)
    practice = [study for study in PRACTICE if study is not figure1.STUDY]
    sections = {
        "style": part("style.css"),
        "claims": claims_section(results),
        "figure1": study_section(results, figure1.STUDY, heading=False),
        "tokens": tokens,
        "portrait": part("portrait.html"),
        "transformer": "\n".join(study_section(results, study) for study in practice),
        "slr": "\n".join(study_section(results, study) for study in THEORY),
        "environment": environment(results),
        "scripts": "\n".join([data] + [f"<script>\n{part(name)}</script>" for name in SCRIPTS]),
    }
    return Template(part("page.html")).substitute(sections)


def part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def missing(what: str, command: str) -> str:
    what, command = html.escape(what), html.escape(command)
    return f'<p class="missing">{what} is not there yet: <code>{command}</code> makes it.</p>'


def study_section(results: Path, study: Study, *, heading: bool = True) -> str:
    """The study's title, its figures with captions, what it says, and its command."""
    title = f"<h3>{html.escape(study.title)}</h3>\n" if heading else ""
    folder = results / study.folder
    if not is_whole(folder):
        return title + missing(study.title, study.command)
    figures = [
        figure(folder / f"{stem}.png", f"Figure: {study.title}", caption)
        for stem, caption in study.figures.items()
    ]
    said = as_html(study.says(Tables(folder)), study.title)
    command = f'<p class="command">Made by <code>{html.escape(study.command)}</code></p>'
    return "\n".join([title, *figures, said, command])


def figure(path: Path, alt: str, caption: str) -> str:
    uri, width, height = data_uri(path)
    image = f'<img src="{uri}" width="{width}" height="{height}" alt="{html.escape(alt)}">'
    text = f"<figcaption>{html.escape(caption)}</figcaption>"
    return f"<figure>{scroll_box(image, alt)}\n{text}</figure>"


def data_uri(path: Path) -> tuple[str, int, int]:
    """A PNG as a data URI, not wider than MAX_WIDTH, and its size in pixels."""
    from PIL import Image

    content = path.read_bytes()
    with Image.open(io.BytesIO(content)) as image:
        width, height = image.size
        if width > MAX_WIDTH:
            width, height = MAX_WIDTH, round(height * MAX_WIDTH / width)
            buffer = io.BytesIO()
            image.resize((width, height), Image.Resampling.LANCZOS).save(
                buffer, "PNG", optimize=True
            )
            content = buffer.getvalue()
    return f"data:image/png;base64,{base64.b64encode(content).decode()}", width, height


def claims_section(results: Path) -> str:
    claims = kept_claims(results)
    if not claims:
        return missing("The table of claims", "python scripts/reproduce.py")
    table = html_table(as_table(claims), "Claims", aligned=False)
    # Verdicts are coloured, but said in words too.
    table = re.sub(r'<th scope="row">(. (pass|miss))', r'<th scope="row" class="\2">\1', table)
    return f"<p>{summary(claims)}.</p>\n{table}"


# ---- the token view


def token_section(results: Path) -> tuple[str, str]:
    """The section, and its data as a script element of JSON (without a model, a line)."""
    present = [
        name for name in MODELS if (results / "models" / name / "model.safetensors").is_file()
    ]
    if not present:
        return missing("A trained Transformer", MODELS["tiny-0"][1]), ""
    from studies.pages.tokens import N_TRAIN, token_view

    views = [token_view(results / "models" / name, MODELS[name][0]) for name in present]
    commands = "; ".join(f"<code>{html.escape(MODELS[name][1])}</code>" for name in present)
    section = Template(part("tokens.html")).substitute(n_sentences=N_TRAIN, commands=commands)
    return section, json_element("token-data", views)


def json_element(name: str, value: Any) -> str:
    # A "<" in the data must not end the element.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{escaped}</script>'


def says(tables: Tables) -> Said:
    return [f"Open {tables.folder / 'index.html'} in a browser."]


STUDY = study(__name__, "The report", "python scripts/report.py")
