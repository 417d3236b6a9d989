"""The simulation of clusters has to reproduce the measured times."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest


@pytest.fixture(scope="module")
def cluster() -> Any:
    return importlib.import_module("cluster")


def test_the_measured_times_of_one_to_three_nodes_are_reproduced(cluster: Any) -> None:
    stored = json.loads(cluster.STORED.read_text())
    assert stored["measured"]["times"].keys() == {"1", "2", "3"}
    for nodes, seconds in cluster.predicted(stored["measured"], cluster.Pieces(**stored["pieces"])).items():
        assert seconds == pytest.approx(stored["measured"]["times"][str(nodes)], rel=cluster.MOST_OFF)
