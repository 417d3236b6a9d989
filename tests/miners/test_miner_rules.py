"""Rules of miners beyond the golden cases: ties on any batch, fallbacks, and the tuples of pytorch-metric-learning."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import miners, objectives
from levelfield.geometry import Geometry
from levelfield.randomness import stream

LABELS = [0, 1, 0, 2, 1, 0, 3, 1, 0, 2]


def line(*points: float) -> Geometry:
    return Geometry(torch.tensor(points, dtype=torch.float64)[:, None], normalize=False)


def mined(name: str, geometry: Geometry, labels: list[int], **how: object) -> list[list[int]]:
    classes = torch.tensor(labels, dtype=torch.int64)
    return miners.create(name, **how)(geometry, classes, generator=torch.Generator()).tolist()


@pytest.fixture
def cloud() -> Geometry:
    return Geometry(torch.randn(10, 3, generator=stream(0, "cloud"), dtype=torch.float64), normalize=False)


def pairs(labels: list[int]) -> list[tuple[int, int]]:
    n = range(len(labels))
    return [(a, p) for a in n for p in n if a != p and labels[a] == labels[p]]


def negatives_of(a: int, labels: list[int]) -> list[int]:
    return [n for n in range(len(labels)) if labels[n] != labels[a]]


ANY_BATCH = given(labels=st.lists(st.integers(0, 4), max_size=14), seed=st.integers(0, 99), grid=st.booleans())


def points(labels: list[int], seed: int, grid: bool) -> Geometry:
    """Rows in the plane; on a grid many distances are equal."""
    rows = torch.randn(len(labels), 2, generator=stream(seed, "rows"), dtype=torch.float64)
    return Geometry(rows.round() if grid else rows, normalize=False)


@settings(max_examples=60, deadline=None)
@ANY_BATCH
def test_semihard_closest_is_the_slow_loop_and_the_first_of_equals(labels: list[int], seed: int, grid: bool) -> None:
    geometry, expected = points(labels, seed, grid), []
    d = geometry.distance.tolist()
    for a, p in pairs(labels):
        negatives = negatives_of(a, labels)
        beyond = [n for n in negatives if d[a][n] > d[a][p]]
        if negatives:  # `min` and `max` give the first of equals
            chosen = min(beyond, key=lambda n: d[a][n]) if beyond else max(negatives, key=lambda n: d[a][n])
            expected.append([a, p, chosen])
    assert mined("semihard", geometry, labels, mode="closest") == expected


@settings(max_examples=60, deadline=None)
@ANY_BATCH
def test_batch_hard_is_the_slow_loop_and_the_first_of_equals(labels: list[int], seed: int, grid: bool) -> None:
    geometry, expected = points(labels, seed, grid), []
    d = geometry.distance.tolist()
    for a in range(len(labels)):
        positives, negatives = [p for other, p in pairs(labels) if other == a], negatives_of(a, labels)
        if positives and negatives:
            farthest, nearest = max(positives, key=lambda p: d[a][p]), min(negatives, key=lambda n: d[a][n])
            expected.append([a, farthest, nearest])
    assert mined("batch_hard", geometry, labels) == expected


def test_semihard_random_draws_any_negative_when_none_is_semihard() -> None:
    miner, geometry, generator = miners.create("semihard"), line(0.0, 5.0, 1.0, 2.0), stream(0, "fallback")
    drawn = [miner(geometry, torch.tensor([0, 0, 1, 2]), generator=generator)[0].tolist() for _ in range(40)]
    assert {tuple(triplet) for triplet in drawn} == {(0, 1, 2), (0, 1, 3)}


def test_distance_weighted_for_each_positive_pairs_every_positive_once(cloud: Geometry) -> None:
    found = mined("distance_weighted", cloud, LABELS, per_anchor="positives", upper=None)
    assert [(a, p) for a, p, _ in found] == pairs(LABELS)


def test_miners_choose_the_tuples_of_pml() -> None:
    pml = pytest.importorskip("pytorch_metric_learning.miners")
    rows, labels = torch.randn(40, 8, generator=stream(0, "pml")), torch.arange(40) % 11
    hard = torch.stack(pml.BatchHardMiner()(rows, labels), 1)
    assert miners.create("batch_hard")(rows, labels).tolist() == hard.tolist()  # type: ignore[union-attr]
    theirs = torch.stack(pml.TripletMarginMiner(margin=0.2)(rows, labels), 1)
    assert miners.create("pml:TripletMarginMiner", margin=0.2)(rows, labels).tolist() == theirs.tolist()  # type: ignore[union-attr]


def test_a_row_that_is_not_a_number_reaches_the_loss() -> None:
    rows, labels = torch.randn(6, 3, generator=stream(0, "nan")), torch.tensor([0, 0, 1, 1, 1, 2])
    rows[3, 1] = torch.nan
    assert objectives.create("triplet", miner="batch_hard")(rows, labels).isnan()
