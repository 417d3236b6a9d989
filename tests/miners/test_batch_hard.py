"""Batch hard against a slow loop and pytorch-metric-learning, and with equal distances."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import miners, objectives
from levelfield.geometry import Geometry
from levelfield.randomness import stream
from levelfield.testing import check_objective


def mined(geometry: Geometry | torch.Tensor, labels: list[int]) -> list[list[int]]:
    found = miners.create("batch_hard")(geometry, torch.tensor(labels, dtype=torch.int64))
    assert isinstance(found, torch.Tensor)
    return found.tolist()


def by_loop(distance: list[list[float]], labels: list[int]) -> list[list[int]]:
    """Straight from the definition: `max` and `min` give the first of equals, which has the lowest index."""
    triplets = []
    for a, own in enumerate(labels):
        positives = [i for i, label in enumerate(labels) if label == own and i != a]
        negatives = [i for i, label in enumerate(labels) if label != own]
        if positives and negatives:
            farthest = max(positives, key=lambda p: distance[a][p])
            triplets.append([a, farthest, min(negatives, key=lambda n: distance[a][n])])
    return triplets


@settings(max_examples=60, deadline=None)
@given(labels=st.lists(st.integers(0, 4), max_size=14), seed=st.integers(0, 99), grid=st.booleans())
def test_it_is_the_slow_loop_also_among_equal_distances(labels: list[int], seed: int, grid: bool) -> None:
    rows = torch.randn(len(labels), 3, generator=stream(seed, "rows"), dtype=torch.float64)
    geometry = Geometry(rows.round() if grid else rows, normalize=False)
    assert mined(geometry, labels) == by_loop(geometry.distance.tolist(), labels)


def test_it_gives_the_triplets_of_pml() -> None:
    pml = pytest.importorskip("pytorch_metric_learning.miners")
    rows, labels = torch.randn(40, 8, generator=stream(0, "pml")), torch.arange(40) % 11
    expected = torch.stack(pml.BatchHardMiner()(rows, labels), 1)
    assert mined(rows, labels.tolist()) == expected.tolist()


def test_the_lowest_index_of_equals_is_taken() -> None:
    line = torch.tensor([[0.0], [2.0], [-2.0], [1.0], [-1.0], [1.0]], dtype=torch.float64)
    assert mined(Geometry(line, normalize=False), [0, 0, 0, 1, 2, 2])[0] == [0, 1, 3]


@pytest.mark.parametrize("name", ["contrastive", "margin", "quadruplet", "snr", "triplet"])
def test_objectives_obey_their_laws_with_it(name: str) -> None:
    def made(**extra: object) -> torch.nn.Module:
        return objectives.create(name, **{"miner": "batch_hard", **extra})  # type: ignore[arg-type]

    check_objective(made)


def test_the_laws_of_its_draws_are_the_triplet_itself_so_that_switch_works() -> None:
    rows, labels = torch.randn(6, 3, generator=stream(0, "switch")), torch.tensor([0, 0, 1, 1, 1, 2])
    law = miners.create("batch_hard", switch=0.25).probabilities(rows, labels)  # type: ignore[attr-defined]
    for a, p, n in mined(rows, labels.tolist()):
        assert law["positive"][a, p] == law["negative"][a, n] == 0.75
        assert law["positive"][a, a] == 0.25
    assert not law["positive"][5].any()


def test_a_row_that_is_not_a_number_reaches_the_loss() -> None:
    rows, labels = torch.randn(6, 3, generator=stream(0, "nan")), torch.tensor([0, 0, 1, 1, 1, 2])
    rows[3, 1] = torch.nan
    assert objectives.create("triplet", miner="batch_hard")(rows, labels).isnan()
