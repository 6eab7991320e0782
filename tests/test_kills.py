"""Every script, killed at random moments, ends with the numbers of an undisturbed run.

Each case is killed SLR_KILLS times (default 1) at moments drawn from SLR_SEED (default 0), always
in the same folder, and then run to its end. After each kill no process is left, and at the end
nothing else is: partial folders, locks, temporary files. What the cases read (trained models, saved
probes, a folder of results) is made once, by reproduce --smoke; SLR_PREPARED names such a folder.

    SLR_KILLS=5 python -m pytest tests/test_kills.py -m slow -q
"""

import os
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from compare_results import differences
from killing import ROOT, Program, started

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SLR_KILLS", "1"))
SEED = os.environ.get("SLR_SEED", "0")
LATEST = 40.0  # seconds: a long program is killed again and again within this time
SAME = {".safetensors", ".csv", ".md", ".html", ".bin"}  # to the last byte
MODEL, PROBE = "results/models/tiny-0", "results/probes/saved/reader"
SMALL = ["--model", MODEL, "--output", "out"]
TEXTS = ["--text", "the film was splendid", "the plot was foul"]
FEW = ["--seeds", "1", "--sentences", "96"]
CSV = "out/out.csv"


@dataclass(frozen=True)
class Case:
    """A script with its arguments; it writes ``out``, beside the results that it reads."""

    script: str
    arguments: list[str]
    file: str | None = None  # that the script writes, and refuses to replace

    @property
    def command(self) -> list[str]:
        return [str(ROOT / "scripts" / self.script), *self.arguments]


SHORT = ["--train", "96", "--sentences", "24", "--samples", "200"]
VARIED = "lam=0.01:0.5:24:log step_size=1e-3:0.5:12:log start=sphere n_steps=5000 runs=20".split()
CASES = {
    "generate-data": Case("generate_data.py", ["--extended", "--output", "out"]),
    "train": Case("train_transformer.py", ["--output", "out", "--snapshots"]),
    "train-glove": Case("train_transformer.py", ["--embeddings", "glove", "--output", "out"]),
    "extract": Case("extract.py", [*SMALL, "--max-rows", "1000"]),
    "probe": Case("probe.py", [*SMALL, "--max-rows", "200", "--jobs", "2"]),
    "apply": Case("apply.py", ["--probe", PROBE, *TEXTS, "--output", CSV], CSV),
    "sparsity": Case("sparsity.py", [*SMALL, "--max-rows", "400"]),
    "controls": Case("controls.py", [*SMALL, "--max-rows", "200", "--draws", "2", "--jobs", "2"]),
    "causal": Case("causal.py", [*SMALL, "--sentences", "96", "--random", "1"]),
    "doctor": Case("doctor.py", ["--model", MODEL]),
    "pgd": Case("run_slr.py", ["pgd-schedule", "--output", "out"]),
    "success": Case("run_slr.py", ["success", "--smoke", "--output", "out"]),
    "sweep": Case("run_slr.py", ["sweep", "--vary", *VARIED, "--jobs", "2", "--output", "out"]),
    "softmax": Case("run_slr.py", ["softmax", "--smoke", "--output", "out"]),
    "figure1": Case("figure1.py", ["--smoke", "--seeds", "1", "--output", "results/out"]),
    "bridge": Case("bridge.py", [*FEW, "--order-seeds", "1", "--output", "results/out"]),
    "decoders": Case("decoders.py", [*FEW, "--output", "results/out"]),
    "length": Case("length.py", ["--models", "minilm", *SHORT, "--output", "results/out"]),
    "report": Case("report.py", ["--results", "results", "--output", "out"]),
    "results-page": Case("results_page.py", ["--results", "results", "--output", "out/page.md"]),
    "reproduce": Case("reproduce.py", ["--smoke", "--results", "out"]),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all results of a quick check."""
    if given := os.environ.get("SLR_PREPARED"):
        return Path(given).resolve()
    folder = tmp_path_factory.mktemp("prepared")
    command = Case("reproduce.py", ["--smoke", "--results", "made"]).command
    with started(command, folder) as program:
        to_the_end(program)
    return folder / "made"


def work_folder(folder: Path, prepared: Path) -> Path:
    """A folder in which a case can run: the prepared results are linked, and stay as they are."""
    (folder / "results").mkdir(parents=True)
    for path in prepared.iterdir():
        (folder / "results" / path.name).symlink_to(path)
    return folder


def to_the_end(program: Program) -> None:
    program.process.wait()
    assert program.process.returncode == 0, program.said()


def killed(case: Case, folder: Path, moment: float) -> bool:
    """Start the case and kill it at this moment; False if it has ended before."""
    with started(case.command, folder) as program:
        end = time.monotonic() + moment
        while time.monotonic() < end and program.process.poll() is None:
            time.sleep(0.01)
        was_running = program.process.poll() is None
        program.kill()
        assert program.left() == [], f"processes are left, {moment:.2f} s after the start"
        assert was_running or program.process.returncode == 0, program.said()
    return was_running


def take_away_file(case: Case, undisturbed: Path, disturbed: Path) -> None:
    """Remove the file that a script would refuse to replace: if it is there, it is whole."""
    if case.file and (written := disturbed / case.file).exists():
        assert written.read_bytes() == (undisturbed / case.file).read_bytes()
        written.unlink()


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize("name", CASES)
def test_a_killed_script_ends_with_the_same_numbers_and_leaves_nothing(
    name: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, draw = CASES[name], random.Random(f"{SEED} {name}")
    undisturbed, disturbed = (work_folder(tmp_path / x, prepared) for x in ("one", "other"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for variable in ("TMPDIR", "JOBLIB_TEMP_FOLDER"):
        monkeypatch.setenv(variable, str(temporary))
    start = time.monotonic()
    with started(case.command, undisturbed) as program:
        to_the_end(program)
    latest = min(LATEST, time.monotonic() - start)
    usual = names_in(temporary)  # torch leaves a folder for compiled code
    for _ in range(KILLS):
        moment = draw.uniform(0, latest)
        while not killed(case, disturbed, moment):  # it was faster than the undisturbed one
            moment /= 2
            for output in (disturbed / "out", disturbed / "results" / "out"):
                shutil.rmtree(output, ignore_errors=True)
        take_away_file(case, undisturbed, disturbed)
    with started(case.command, disturbed) as program:
        to_the_end(program)
        assert program.left() == []
    assert names_in(disturbed) == names_in(undisturbed), "something is left behind"
    assert differences(undisturbed, disturbed) == {}
    for path in names_in(undisturbed):
        if Path(path).suffix in SAME:
            assert (undisturbed / path).read_bytes() == (disturbed / path).read_bytes(), path
    assert names_in(temporary) <= usual, "temporary files are left behind"
