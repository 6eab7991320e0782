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

from slr import EXPERIMENTS
from studies.theory import paper

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in BLOCK.finditer(path.read_text())]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_says_its_language(path: Path) -> None:
    assert {language for language, _ in blocks(path)} <= {"python", "text", "sh", "toml", "bibtex"}


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


def test_the_table_of_parameters_is_that_of_the_experiments() -> None:
    """docs/theory.md, section 13: one row per experiment of the paper."""
    text = (ROOT / "docs" / "theory.md").read_text()
    rows = re.findall(r"^\| `([ps]gd-[a-z-]+)` \| (.*) \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [study.name for study in paper.STUDIES]
    for name, cells in rows:
        _, d, start, lam, *rest = (cell.strip() for cell in cells.split("|"))
        ours = EXPERIMENTS[name]
        schedule = f"{ours.lam:g}/(1 + 1e-4 t)" if ours.lam_decay == 1e-4 else f"{ours.lam:g}"
        assert (int(d), start, lam) == (ours.d, ours.start, schedule)
        numbers = [float(cell.replace(" ", "")) for cell in rest if cell]
        expected = [ours.step_size, ours.n_steps, ours.log_every]
        assert numbers == expected + [ours.batch_size, ours.noise_std] * (ours.optimiser == "sgd")


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


def test_links_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


HOP = re.compile(
    r"^\d+\. `([\w/.]+\.(?:py|toml))`(?:, `([^`]+)`(?: and `([^`]+)`)?)?", re.MULTILINE
)


def test_every_hop_of_the_architecture_page_is_in_the_code() -> None:
    hops = HOP.findall((ROOT / "docs" / "architecture.md").read_text())
    assert len(hops) > 20
    for file, *names in hops:
        code = (ROOT / file).read_text()
        for name in filter(None, names):
            first, *rest = re.findall(r"[A-Za-z_]\w*", name)
            assert re.search(rf"^\s*(?:def|class) {first}\b|^{first}\b.*=", code, re.MULTILINE), (
                name
            )
            assert all(part in code for part in rest), name
