"""The benchmark of exported models: its table names a peer for every lane."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ship() -> Any:
    return importlib.import_module("ship")


def test_its_examples_hold(ship: Any) -> None:
    failed, tried = doctest.testmod(ship)
    assert tried
    assert not failed


def test_a_lane_above_its_limit_is_too_slow(ship: Any) -> None:
    names = {name for each in ship.CONTESTS for name in (each.lane, each.peer)}
    cost = {name: 9.0 if name.startswith("embed") else 0.1 if name.endswith("again") else 1.0 for name in names}
    lines = ship.table({name: [ship.Sample(1.0, cost[name])] for name in names}, {"search, ONNX": 1.5})
    slow = [line for line in lines if "TOO SLOW" in line]
    assert [line[:9] for line in slow] == ["embed, 64", "embed(exa", "embed(exa", "search, O"]


def test_an_index_of_a_run_may_take_a_second_longer_than_torch(ship: Any) -> None:
    names = {name for each in ship.CONTESTS for name in (each.lane, each.peer)}
    samples = {name: [ship.Sample(1.0, 1.0)] for name in names}
    for cost, verdict in ((2.4, "good"), (2.6, "TOO SLOW")):
        line = ship.table(samples, {ship.TORCH: 1.5, "search an index": cost})[-1]
        assert line.endswith(f"below import torch + 1 s = 2.50 s: {verdict}")
