"""Hostile numbers, grids and addresses: each is refused in one line, before anything is made."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import LONGEST_LINE, REFUSED, Ended, call, command

from data_gen.quoting import one_line
from probing.models.training import TrainingConfig
from slr import (
    ALIGNED,
    Experiment,
    Overlaps,
    SingleLocationRegressor,
    Task,
    Truth,
    bayes_excess_risk,
    excess_risk,
    fixed_points,
    flow,
    oracle_excess_risk,
    pgd,
    published_start,
    sample_batch,
    sample_truth,
    sgd,
    start_on_manifold,
    start_on_sphere,
)
from slr.attentions.layer_training import LayerTraining
from slr.checks import quoted
from slr.sweep import Grid, cell_grid, expand_range

ROOT = Path(__file__).parent.parent
HUGE = "1" + "0" * 400
NEVER = ("-1", HUGE, "nan", "1e-320", "x", "9" * 5000)  # right for no option

# Options of numbers by command; "=0" marks those for which 0 is right.
NUMBERS = {
    "slr pgd-manifold": "seed=0 runs d steps",
    "slr sgd-schedule": "seed=0 runs d steps",
    "slr portrait": "seed=0 runs d",
    "slr yardsticks": "seed=0",
    "slr scaling": "seed=0 runs",
    "slr success": "seed=0 runs jobs",
    "slr layer": "seed=0 runs d steps variant-steps",
    "slr locations": "seed=0 runs d steps",
    "slr noise-length": "seed=0 runs steps",
    "slr softmax": "seed=0 runs d",
    "slr softmax-length": "seed=0 runs steps",
    "slr sweep": "seed=0 jobs",
    "slr paper": "seed=0 runs d steps",
    "slr all": "seed=0",
    "train": "seed=0 epochs learning-rate max-rows",
    "extract": "layers=0 max-rows=0 batch-tokens",
    "probe": "seed=0 layers=0 max-rows=0 jobs",
    "sparsity": "seed=0 max-rows",
    "controls": "seed=0 layers=0 max-rows draws jobs",
    "causal": "seed=0 sentences layers=0 heads=0 random",
    "figure1": "seeds",
    "decoders": "seeds sentences",
    "bridge": "seeds sentences",
    "length": "train sentences samples seed=0 jobs",
    "generate-data": "max-rows",
    "doctor": "seed=0",
    "reproduce": "seeds",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, in which commands would write their results by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failures(ends: dict[str, Ended]) -> dict[str, Ended]:
    return {name: end for name, end in ends.items() if end.outcome != REFUSED}


def run(words: str, *arguments: object, within: Path) -> Ended:
    name, *rest = words.split()
    output = [] if name in ("doctor", "reproduce") else ["--output", within / "out"]
    return command(name, [*rest, *arguments, *output], within=within)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_never_right_is_refused(name: str, here: Path) -> None:
    ends = {}
    for word in NUMBERS[name].split():
        option, _, zero = word.partition("=")
        for value in NEVER if zero else ("0", *NEVER):
            ends[f"--{option} {value[:20]}"] = run(name, f"--{option}", value, within=here)
    assert not failures(ends)


TOO_LARGE = {  # for any machine, or for the kind of number
    "slr pgd-manifold --starts random --d": str(10**19),
    "slr sgd-schedule --starts random --d": "5",
    "slr layer --variant-steps": "3",
    "slr softmax-length --steps": "3",
    "slr sweep --jobs": "1000000",
    "slr success --jobs": "1000000",
    "slr paper --seed": str(2**63),
    "probe --jobs": "1000000",
    "probe --seed": str(2**32),
    "probe --layers": "0 1000000",
    "controls --jobs": "1000000",
    "controls --max-rows": "99",
    "controls --draws": "1000000",
    "length --jobs": "1000000",
    "length --samples": "1000000000",
    "train --learning-rate": "1e31",
    "extract --batch-tokens": "1000000000",
    "figure1 --seeds": "1000000000",
    "bridge --sentences": "47",
    "causal --sentences": "23",
    "causal --random": "1000000",
    "reproduce --seeds": "1000000000",
}


def test_a_number_that_is_too_large_is_refused(here: Path) -> None:
    ends = {
        f"{words} {value}": run(words, *value.split(), within=here)
        for words, value in TOO_LARGE.items()
    }
    assert not failures(ends)


# ---- grids and clusters

GRIDS = {
    "nested table": "[lam]\nx = 1",
    "date": "lam = 1979-05-27",
    "lists of lists": "lam = [[0.1], [0.2]]",
    "nothing": "",
    "unknown name": "lamb = 1",
    "long name": f'"{"y" * 10**5}" = 1',
    "dotted key": "a" + ".a" * 10**5 + " = 1",
    "nested lists": "lam = " + "[" * 50_000,
    "a billion values": 'lam = "0:1:1000000000"',
    "nan": "lam = nan",
    "infinity": "lam = [inf]",
    "truth value": "lam = true",
    "no runs": "runs = 0",
    "steps beyond all time": "n_steps = 1000000000000000000000",
    "digits": "seed = " + "9" * 5000,
    "large d": "d = " + HUGE,
    "negative seed": "seed = -1",
    "value twice": "lam = [0.1, 0.1]",
    "name twice": "lam = 1\nlam = 2",
    "control characters": "\x00\x01",
    "colons": 'lam = "::"',
    "gamma": "gamma = 0",
    "tiny gamma": "gamma = 1e-320",
    "long word": f'start = "{"x" * 10**5}"',
    "number for a word": "gate = 5",
    "file too large": "# " + "x" * 10**6,
}
VARIED = (
    "lam", "lam=", "=1", "lam=a", "lam=0:1:1000000000", "lam=nan", "lam=1e400", "lamb=1",
    "lam=0:1:0", "lam=0:1:-1", "lam=0:1:1:log", "lam=-1:1:3", "lam=1:2:3:4:5", "seed=1.5",
    "runs=0", "d=1e400", "L=" + "9" * 400, "gate=x", "lam=-1e308:1e308:3", "x" * 10_000 + "=1",
    "lam=" + "0.1," * 10_000, "step_size=inf", "noise_std=1e200", "batch_size=0",
    "seed=-1", "log_every=0", "\x1b[31m=1", "lam=\u202e1", "lam=0.1 lam=0.2",
    "lam=0.1 --vary runs=2",
)  # fmt: skip


def test_a_hostile_grid_is_refused(here: Path) -> None:
    folder = here / "grids"
    folder.mkdir()
    for name, text in GRIDS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    os.mkfifo(folder / "fifo.toml")
    (folder / "latin.toml").write_bytes(b"lam = '\xe9'")
    paths = [*folder.iterdir(), folder, folder / "absent", Path("/dev/zero"), Path("/dev/null")]
    ends = {path.name: run("slr sweep --grid", path, within=here) for path in paths}
    assert not failures(ends)
    assert len(ends) > len(GRIDS)


def test_a_hostile_axis_is_refused(here: Path) -> None:
    ends = {text[:30]: run("slr sweep --vary", *text.split(" "), within=here) for text in VARIED}
    assert not failures(ends)


ADDRESSES = (
    "", "nonsense", "tcp://", "tcp://host", "tcp://h:99999", "tcp://h:0", "tcp://h:-1", "tcp://h:x",
    "nonsense://x:1", "127.0.0.1", "tcp://[::1", "http://127.0.0.1:80", "x" * 5000 + ":80",
    "tcp://h:80/path", "tcp://\x1b:80", "tcp://127.0.0.1:1", "tcp://" + "x" * 100 + ".invalid:1",
)  # fmt: skip


@pytest.mark.parametrize("name", ["slr sweep --smoke", "slr success --smoke"])
def test_a_bad_cluster_is_refused_before_a_folder_is_made(name: str, here: Path) -> None:
    ends = {text[:30]: run(f"{name} --cluster", text, within=here) for text in ADDRESSES}
    assert not failures(ends)


def test_a_probe_on_a_bad_cluster_is_refused_before_its_model_is_read(here: Path) -> None:
    ends = {text[:30]: run("probe --cluster", text, within=here) for text in ADDRESSES}
    assert not failures(ends)


# ---- slr as a library

TASK = Task(d=40, L=5, gamma=0.7)
START = Overlaps(np.array([0.1, 0.2]), np.array([0.1, 0.2]), 0.0, 0.0, 0.0)
STEPS: dict[str, Any] = {"lam": 0.1, "step_size": 1e-3, "n_steps": 5, "log_every": 5}
X = np.random.default_rng(0).standard_normal((20, 5, 4))
WRONG: tuple[Any, ...] = (
    float("nan"), float("inf"), -2, True, "x", "z" * 10**5, 10**400, 1j, None, {}, np.bool_(1),
)  # fmt: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def fit(**options: Any) -> Any:
    return SingleLocationRegressor(**{"n_starts": 1, **options}).fit(X, X[:, 0, 0])


def by_name(function: Callable[..., Any], names: str) -> dict[str, Callable[[Any], Any]]:
    def call_with(name: str, value: Any) -> Any:
        return function(**{name: value})

    return {name: functools.partial(call_with, name) for name in names.split()}


LIBRARY: dict[str, Callable[[Any], Any]] = {
    **by_name(lambda **x: replace(TASK, **x), "d L gamma noise_std"),
    **by_name(lambda **x: pgd(TASK, START, **STEPS | x), "lam step_size n_steps log_every"),
    **by_name(lambda **x: pgd(TASK, START, **STEPS, **x), "lam_decay"),
    **by_name(lambda **x: sgd(TASK, START, **STEPS, **x, rng=rng()), "batch_size"),
    "overlaps": lambda x: pgd(TASK, START._replace(kappa=x), **STEPS),
    "risk": lambda x: excess_risk(TASK, ALIGNED, x),
    "oracle": lambda x: oracle_excess_risk(TASK, x, "softmax"),
    "runs": lambda x: start_on_sphere(TASK, x, rng()),
    "runs on M": lambda x: start_on_manifold(TASK, x, rng()),
    "samples": lambda x: bayes_excess_risk(TASK, x, rng()),
    "batch": lambda x: sample_batch(TASK, sample_truth(TASK, rng()), x, rng()),
    "truth": lambda x: Truth(np.array([x, 1]), np.array([0, 1])),
    "grid": lambda x: fixed_points(TASK, 0.1, grid=x),
    "flow": lambda x: flow(TASK, 0.5, 0.5, x),
    "name": published_start,
    "lam axis": lambda x: cell_grid({"lam": x}),
    "axis": lambda x: Grid({"x": x}),
    "range": expand_range,
    **by_name(lambda **x: TrainingConfig(**x), "epochs batch_size seed learning_rate"),
    **by_name(lambda **x: LayerTraining(TASK, **x), "n_steps batch_size log_every n_test"),
}  # fmt: skip


def tried(functions: dict[str, Callable[[Any], Any]], within: Path) -> dict[str, Ended]:
    return {
        f"{name}, {number}. value": call(functools.partial(function, value), within=within)
        for name, function in functions.items()
        for number, value in enumerate(WRONG, 1)
    }


@pytest.mark.filterwarnings("error")
def test_slr_refuses_what_is_not_a_number(here: Path) -> None:
    assert not failures(tried(LIBRARY, here))


def test_a_risk_is_that_of_numbers(here: Path) -> None:
    wrong = [value for value in WRONG if value != -2]  # the formula has a value there
    tries = {str(i): ALIGNED._replace(rho=value) for i, value in enumerate(wrong)}
    assert not failures(
        {
            name: call(functools.partial(excess_risk, TASK, overlaps, 0.1), within=here)
            for name, overlaps in tries.items()
        }
    )


def test_an_experiment_refuses_what_is_not_a_number(here: Path) -> None:
    names = " ".join(field.name for field in fields(Experiment))
    assert not failures(tried(by_name(Experiment, names), here))


def test_the_estimator_refuses_what_is_not_a_number(here: Path) -> None:
    names = "lam tol gate n_starts max_iter random_state"
    assert not failures(tried(by_name(fit, names), here))


def test_a_grid_without_a_length_is_refused(here: Path) -> None:
    tall = {str(i): tuple(range(1000)) for i in range(7)}  # 2^70 cells
    assert call(lambda: Grid(tall), within=here).outcome == REFUSED


# ---- error lines


def test_of_a_long_line_start_and_end_are_left() -> None:
    text = "error: start " + "x" * 10**6 + " what to do"
    line = one_line(text)
    assert len(line) <= LONGEST_LINE
    assert line.startswith("error: start xxx")
    assert line.endswith("xxx what to do")
    found = re.search(r" \.\.\. \(([\d ]+) more characters\) \.\.\. ", line)
    assert found
    assert len(text) == len(line) - len(found[0]) + int(found[1].replace(" ", ""))
    assert one_line("all of\n a short one") == "all of a short one"


def test_what_does_not_print_is_escaped() -> None:
    hostile = "\x1b[31m \u202e \x00 \udc80 \x07"
    assert one_line(hostile).isprintable()
    assert one_line("é 漢 \u202e\udc80") == r"é 漢 \u202e\udc80"


def test_a_long_value_is_quoted_by_its_start() -> None:
    assert quoted("sphere") == "'sphere'"
    assert quoted("x" * 1000).endswith("... (962 more characters)")
    assert quoted(10**5000) == "an integer of 16610 bits"
    assert quoted(np.float64(0.5)) == "0.5"


def test_arguments_of_any_kind_are_one_line(here: Path) -> None:
    words = ("x" * 10**5, "\x1b[31m\u202e", "\udc80", "--" + "y" * 10**4, "-", "", "--jobs")
    for arguments in [[word] for word in words] + [["sweep", word] for word in words]:
        end = command("slr", arguments, within=here)
        assert end.outcome == REFUSED, end


# ---- a closed pipe


def end_without_reader(arguments: list[str]) -> tuple[bytes, int]:
    """What run_slr.py says and its exit code, if nobody reads its output."""
    with subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "run_slr.py", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        return process.stderr.read(), process.wait()


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    """Nothing is said, not even when the interpreter ends."""
    assert end_without_reader(["sweep", "--help"]) == (b"", 141)
