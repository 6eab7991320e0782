"""The report as one HTML page: sections from the results folder, put into report_parts/.

Images become data URIs and data becomes JSON inside the page, so that it opens from disk.
"""

import base64
import html
import io
import itertools
import json
from pathlib import Path
from string import Template
from typing import Any

from report_environment import environment
from report_figures import BRIDGE, FIGURE1, STUDIES, Figure, uncaptioned
from report_table import scroll_box, table

PARTS = Path(__file__).parent / "report_parts"
SCRIPTS = ("scroll.js", "flow.js", "portrait.js", "tokens.js")
MAX_WIDTH = 1600  # pixels of an image: sharp on a page of 62rem with two device pixels a pixel
MODELS = {  # folder: what the reader chooses, and the command that makes it
    "tiny-0": (
        "tiny-0: 1 layer, 1 head",
        "python scripts/train_transformer.py --snapshots --output results/models/tiny-0",
    ),
    "small-0": (
        "small-0: 2 layers, 4 heads",
        "python scripts/train_transformer.py --preset small --output results/models/small-0",
    ),
}


def render(results: Path) -> str:
    """The whole page. A stage that is not in ``results`` is a line with the command for it."""
    tokens, data = token_section(results)
    others = uncaptioned(results)
    theory = [*STUDIES, *(one for one in others if one.path.startswith("slr/"))]
    practice = [*BRIDGE, *(one for one in others if not one.path.startswith("slr/"))]
    sections = {
        "style": part("style.css"),
        "claims": claims_section(results / "claims.json"),
        "figure1": figure1_section(results),
        "tokens": tokens,
        "portrait": part("portrait.html"),
        "transformer": "\n".join(figure_part(results, one) for one in practice),
        "slr": "\n".join(figure_part(results, one) for one in theory),
        "environment": environment(results),
        "scripts": "\n".join([data] + [f"<script>\n{part(name)}</script>" for name in SCRIPTS]),
    }
    return Template(part("page.html")).substitute(sections)


def part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def missing(what: str, command: str) -> str:
    what, command = html.escape(what), html.escape(command)
    return f'<p class="missing">{what} is not there yet: <code>{command}</code> makes it.</p>'


def figure_part(results: Path, figure: Figure, *, heading: bool = True) -> str:
    title = f"<h3>{html.escape(figure.title)}</h3>\n" if heading else ""
    path = results / figure.path
    if not path.is_file():
        return title + missing(figure.path, figure.command)
    uri, width, height = data_uri(path)
    caption, command = html.escape(figure.caption), html.escape(figure.command)
    image = f'<img src="{uri}" width="{width}" height="{height}" alt="{html.escape(figure.alt)}">'
    return (
        f"{title}<figure>{scroll_box(image, figure.title)}\n"
        f'<figcaption>{caption}<p class="command">Made by <code>{command}</code></p></figcaption>'
        "</figure>"
    )


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


# ---- claims

VERDICTS = {
    True: '<span class="verdict pass">✔ pass</span>',
    False: '<span class="verdict miss">✘ miss</span>',
}
CLAIM_COLUMNS = ("claim", "the paper", "passes", "measured", "verdict")


def claims_section(path: Path) -> str:
    if not path.is_file():
        return missing("The table of claims", "python scripts/reproduce.py")
    claims = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for command, group in itertools.groupby(claims, key=lambda claim: str(claim["command"])):
        made_by = f'<td colspan="5">Made by <code>{html.escape(command)}</code></td>'
        rows += [f'<tr class="group">{made_by}</tr>', *map(claim_row, group)]
    passed = sum(claim["passed"] for claim in claims)
    return f"<p>{passed} of {len(claims)} claims pass.</p>\n" + table(
        CLAIM_COLUMNS, rows, label="Claims", stack=True
    )


def claim_row(claim: dict[str, Any]) -> str:
    measured = f"{claim['measured']} {claim['interval']}".strip()
    said = (claim["claim"], claim["paper"], claim["target"], measured)
    cells = zip(CLAIM_COLUMNS, [*map(html.escape, said), VERDICTS[claim["passed"]]], strict=True)
    row = "".join(f'<td data-label="{name}">{text}</td>' for name, text in cells)
    return f"<tr>{row}</tr>"


# ---- Figure 1


def figure1_section(results: Path) -> str:
    bars = results / "figure1" / "bars.parquet"
    if not bars.is_file():
        return missing("figure1", FIGURE1.command)
    return (
        "<p>Accuracy by split: the published bars of BERT first, then ours, with 95% intervals in "
        "brackets and the difference from the published bar of the same split.</p>\n"
        + bars_table(bars)
        + NOTE
        + figure_part(results, FIGURE1, heading=False)
    )


NOTE = (
    "<p>A Transformer from scratch with a word-level vocabulary cannot do better than 0.5 on new "
    "adjectives: all of them are the same [UNK]. The swapped corpus is a control, in which new "
    "adjectives keep the wrong company and accuracy should fall to 0.</p>\n"
)


def bars_table(path: Path) -> str:
    import pandas as pd

    from probing.figures import SERIES, SPLIT_NAMES

    bars = pd.read_parquet(path).set_index(["series", "split"])
    names = list(dict.fromkeys(bars.index.get_level_values("series")))
    order = [name for name in SERIES if name in names] + [n for n in names if n not in SERIES]
    splits = [split for split in SPLIT_NAMES if split in bars.index.get_level_values("split")]
    rows = []
    for name in order:
        label = SERIES[name][0].replace("…", "1-layer Transformer,") if name in SERIES else name
        cells = "".join(bar_cell(bars, name, split, SPLIT_NAMES[split]) for split in splits)
        kind = ' class="published"' if name == "bert-published" else ""
        rows.append(f'<tr{kind}><th scope="row">{html.escape(label)}</th>{cells}</tr>')
    head = ["series", *(SPLIT_NAMES[split] for split in splits)]
    return table(head, rows, label="Figure 1 in numbers", stack=True, numbers=True)


def bar_cell(bars: Any, name: str, split: str, label: str) -> str:
    if (name, split) not in bars.index:
        return f'<td class="number" data-label="{label}">-</td>'
    row = bars.loc[(name, split)]
    text = f"{row['accuracy']:.3f}"
    if row["low"] == row["low"]:  # no interval was published
        text += f"<small>[{row['low']:.2f}, {row['high']:.2f}]</small>"
    if name != "bert-published" and ("bert-published", split) in bars.index:
        gap = row["accuracy"] - bars.loc[("bert-published", split), "accuracy"]
        text += f"<small>{signed(gap)}</small>"
    return f'<td class="number" data-label="{label}">{text}</td>'


def signed(value: float) -> str:
    sign = "+" if round(value, 2) > 0 else "&minus;" if round(value, 2) < 0 else "&plusmn;"
    return f"{sign}{abs(value):.2f}"


# ---- the token view


def token_section(results: Path) -> tuple[str, str]:
    """The section, and its data as a script element of JSON (without a model, a line)."""
    present = [
        name for name in MODELS if (results / "models" / name / "model.safetensors").is_file()
    ]
    if not present:
        return missing("A trained Transformer", MODELS["tiny-0"][1]), ""
    from report_tokens import N_TRAIN, token_view

    views = [token_view(results / "models" / name, MODELS[name][0]) for name in present]
    commands = "; ".join(f"<code>{html.escape(MODELS[name][1])}</code>" for name in present)
    section = Template(part("tokens.html")).substitute(n_sentences=N_TRAIN, commands=commands)
    return section, json_element("token-data", views)


def json_element(name: str, value: Any) -> str:
    # A "<" in the data must not end the element.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    escaped = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{escaped}</script>'
