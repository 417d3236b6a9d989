"""The simulation of clusters: its laws, and the measured times that it has to reproduce."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest


@pytest.fixture(scope="module")
def cluster() -> Any:
    return importlib.import_module("cluster")


@pytest.fixture(scope="module")
def pieces(cluster: Any) -> Any:
    return cluster.Pieces(
        start=5.0, task=0.05, around=2.0, notice=2.0, replace=120.0, checkpoint=20.0, bandwidth=1e8, speed=1e10
    )


def test_the_measured_times_of_one_to_three_nodes_are_reproduced(cluster: Any) -> None:
    stored = json.loads(cluster.STORED.read_text())
    assert stored["measured"]["times"].keys() == {"1", "2", "3"}
    for nodes, seconds in cluster.predicted(stored["measured"], cluster.Pieces(**stored["pieces"])).items():
        assert seconds == pytest.approx(stored["measured"]["times"][str(nodes)], rel=cluster.MOST_OFF)


@pytest.mark.parametrize("nodes", [1, 10, 100, 1000])
def test_no_cluster_is_faster_than_its_work_allows(cluster: Any, pieces: Any, nodes: int) -> None:
    runs = [100.0 + k for k in range(300)]
    result = cluster.simulate(runs, nodes, pieces)
    assert result.seconds >= max(max(runs), sum(runs) / nodes, len(runs) * pieces.task)
    assert result.seconds <= sum(runs) / nodes + 2 * max(runs) + len(runs) * pieces.task


def test_failures_cost_at_most_a_checkpoint_each_and_every_run_ends(cluster: Any, pieces: Any) -> None:
    runs, quiet = [600.0] * 200, cluster.simulate([600.0] * 200, 50, pieces)
    result = cluster.simulate(runs, 50, pieces, mtbf=3600.0, seed=2)
    assert result.failures > 10
    assert result.repeated <= result.failures * pieces.checkpoint
    assert result.seconds > quiet.seconds
    assert cluster.simulate(runs, 50, pieces, mtbf=3600.0, seed=2) == result
