"""Sweeps on a cluster: a real scheduler and two worker processes, over TCP."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from small_models import bert
from waiting_cells import wait, waiting_grid

from data_gen import build_dataset, build_tokenizer
from probing import progress
from probing.probes.by_layer import fit_probes, probe_cells
from probing.probes.splits import read_splits
from probing.sentences import at_most
from slr.sweep import Grid, cell_grid, sweep, train_cell
from slr.sweep.engine import run_batch
from slr.workers import cluster as cluster_module

SMALL = {"lam": [0.02, 0.1], "step_size": [4e-3, 4e-2, 0.4], "n_steps": 300, "runs": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, protocol="tcp://", dashboard_address=":0"
    ) as found:
        yield found


def test_a_cluster_gives_the_same_numbers(cluster: LocalCluster, tmp_path: Path) -> None:
    assert cluster.scheduler_address.startswith("tcp://")
    grid = cell_grid(SMALL | {"optimiser": ["pgd", "sgd"], "n_steps": 50})
    alone = sweep(train_cell, grid, tmp_path / "alone", jobs=1)
    there = sweep(train_cell, grid, tmp_path / "there", cluster=cluster.scheduler_address)
    pd.testing.assert_frame_equal(there.table, alone.table, check_exact=True)


def test_nothing_is_lost_with_a_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    n = 2000
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        victim, _ = client.run(os.getpid).values()
    done = 0

    def kill_one(cells: int) -> None:
        nonlocal done, victim
        done += cells
        if done > n / 4 and victim:
            os.kill(victim, signal.SIGKILL)
            victim = 0

    grid, address = waiting_grid(tmp_path, n, seconds=0.001), cluster.scheduler_address
    found = sweep(wait, grid, tmp_path / "sweep", cluster=address, progress=kill_one)
    assert not victim
    assert done == found.computed == n
    assert found.table["square"].tolist() == [x**2 for x in range(n)]
    assert len(set(found.table["process"])) >= 2
    assert os.getpid() not in set(found.table["process"])


def test_a_batch_that_kills_every_worker_ends_the_sweep(tmp_path: Path) -> None:
    import dask

    def deadly(settings: Mapping[str, Any]) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        pytest.raises(cluster_module.ClusterError, match="gave up a batch: KilledWorker"),
    ):
        sweep(deadly, Grid({"x": (1, 2)}), tmp_path, cluster=cluster.scheduler_address)


def test_a_cluster_of_one_core_is_used(tmp_path: Path) -> None:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        found = sweep(wait, waiting_grid(tmp_path, 5), tmp_path / "sweep", cluster=address)
    assert set(found.table["process"]) & {os.getpid()} == set()


def test_a_worker_with_other_code_is_refused() -> None:
    with pytest.raises(ValueError, match="another version of slr"):
        run_batch(wait, Grid({"x": (1,)}), [0], source="0" * 16)


# ---- probes on the same cluster


@pytest.fixture(scope="module")
def probed_states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The states of a small model, held in memory and in a folder."""
    dataset = at_most(build_dataset(), 240)
    tokenizer = build_tokenizer(dataset["train"]["text"][:])
    model, folder = bert(len(tokenizer)), tmp_path_factory.mktemp("states")
    return {
        "held": read_splits(model, tokenizer, dataset),
        "stored": read_splits(model, tokenizer, dataset, folder=folder),
    }


@pytest.mark.parametrize("where", ["held", "stored"])
def test_probes_on_a_cluster_are_those_of_one_process(
    cluster: LocalCluster, probed_states: dict[str, dict[str, Any]], where: str
) -> None:
    """To the last bit, although a worker is killed after the first fit."""
    options: dict[str, Any] = {"probes": ("summary", "value", "reader"), "C": 1.0}
    alone = fit_probes(probed_states["held"], **options, jobs=1)
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        victim = next(iter(client.run(os.getpid).values()))

    def kill_one(done: int, total: int) -> None:
        if done == 1:
            os.kill(victim, signal.SIGKILL)

    address = cluster.scheduler_address
    there = fit_probes(probed_states[where], **options, cluster=address, progress=kill_one)
    assert list(there) == list(alone)
    pd.testing.assert_frame_equal(
        probe_cells(there, probed_states["held"]),
        probe_cells(alone, probed_states["held"]),
        check_exact=True,
    )
    for key, fitted in alone.items():
        for name in ("k_hat_", "v_hat_", "direction_"):
            if hasattr(fitted.estimator, name):
                expected = getattr(fitted.estimator, name)
                np.testing.assert_array_equal(getattr(there[key].estimator, name), expected)


def test_a_worker_with_other_probes_is_refused() -> None:
    with pytest.raises(ValueError, match="another version of probing"):
        progress._call(max, "0" * 16, ("x", (1, 2)))
