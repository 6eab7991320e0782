"""What README and docs show is run: a code block that does not work fails here.

A ``python`` block is executed (the blocks of a file share their names), and a ``text`` block right
behind it must be its output. Each line of a ``sh`` block is run; `make` and installation lines,
which would start these very tests, as a dry run.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(path.read_text())]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run_and_print_what_is_shown(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(path, tmp_path)
    names: dict[str, object] = {}
    for (language, code), (next_language, shown) in pairwise([*blocks(path), ("", "")]):
        if language != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, path.name, "exec"), names)
        if next_language == "text":
            assert output.getvalue().strip() == shown.strip()


TRAINS = ROOT / "docs" / "probing.md"  # it trains for minutes, as make reproduce does


@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path != TRAINS],
    ids=lambda path: path.name,
)
def test_shell_lines_run(path: Path, tmp_path: Path) -> None:
    for name in ("scripts", "Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).symlink_to(ROOT / name)
    write_files(path, tmp_path)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, code in blocks(path):
        for line in code.splitlines() if language == "sh" else []:
            words = shlex.split(line, comments=True)
            if not words or words[0] in {"git", "cd"}:
                continue
            if words[0] == "make":
                words.insert(1, "--dry-run")
            elif words[0] in {"pytest", "pre-commit"} or words[0].endswith("pre-commit"):
                assert shutil.which(Path(words[0]).name, path=environment["PATH"])
                continue
            run = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert run.returncode == 0, f"{line}\n{run.stdout}\n{run.stderr}"


def write_files(path: Path, folder: Path) -> None:
    """A toml block that begins with "# name.toml" is a file that the commands behind it use."""
    for language, code in blocks(path):
        if language == "toml" and (match := re.match(r"# (\S+\.toml)\n", code)):
            (folder / match[1]).write_text(code)
