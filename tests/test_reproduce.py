"""Stages are made when they must be and not otherwise."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studies import reproduce
from studies.workers import in_parallel

ROOT = Path(__file__).parent.parent


def test_the_time_that_is_left_is_that_of_the_stages_to_come(tmp_path: Path) -> None:
    options = reproduce.Options()
    stages = json.loads(reproduce.TIMES.read_text())["reproduce"]["stages"]
    minutes = round(sum(stages.values()) / 60)
    assert f"about {minutes} minutes" in reproduce.time_left(list(reproduce.STAGES), options)
    assert reproduce.time_left(["report"], options) == "", "less than a minute"
    assert reproduce.time_left(list(reproduce.STAGES), replace(options, smoke=True)) == ""


def fail_on_two(number: int) -> int:
    if number == 2:
        raise ValueError("no twos")
    return 10 * number


def test_workers_give_results_in_order_and_pass_errors_on() -> None:
    assert in_parallel(fail_on_two, [1, 3, 5]) == [10, 30, 50]
    with pytest.raises(ValueError, match="no twos"):
        in_parallel(fail_on_two, [1, 2, 3])
