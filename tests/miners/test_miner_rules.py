"""Witness 2: each deterministic rule against a slow loop, and cases that a loop would get wrong."""

from __future__ import annotations

import math

import pytest
import torch

from levelfield import miners
from levelfield.geometry import Geometry
from levelfield.labels import class_table
from levelfield.miners.semihard import _closest, _closest_of_few
from levelfield.randomness import stream

LABELS = [0, 1, 0, 2, 1, 0, 3, 1, 0, 2]


def line(*points: float) -> Geometry:
    return Geometry(torch.tensor(points, dtype=torch.float64)[:, None], normalize=False)


def mined(name: str, geometry: Geometry, labels: list[int], **settings: object) -> list[list[int]]:
    found = miners.create(name, **settings)(geometry, torch.tensor(labels), generator=torch.Generator())
    assert isinstance(found, torch.Tensor)
    return found.tolist()


@pytest.fixture
def cloud() -> Geometry:
    return Geometry(torch.randn(10, 3, generator=stream(0, "cloud"), dtype=torch.float64), normalize=False)


def pairs(labels: list[int]) -> list[tuple[int, int]]:
    n = range(len(labels))
    return [(a, p) for a in n for p in n if a != p and labels[a] == labels[p]]


def test_all_is_the_triple_loop(cloud: Geometry) -> None:
    expected = [[a, p, n] for a, p in pairs(LABELS) for n in range(10) if LABELS[n] != LABELS[a]]
    assert mined("all", cloud, LABELS) == expected


def test_semihard_closest_is_the_slow_loop(cloud: Geometry) -> None:
    d, expected = cloud.distance.tolist(), []
    for a, p in pairs(LABELS):
        negatives = [n for n in range(10) if LABELS[n] != LABELS[a]]
        beyond = [n for n in negatives if d[a][n] > d[a][p]]
        chosen = min(beyond, key=lambda n: d[a][n]) if beyond else max(negatives, key=lambda n: d[a][n])
        expected.append([a, p, chosen])
    assert mined("semihard", cloud, LABELS, mode="closest") == expected


def test_semihard_closest_takes_the_farthest_when_none_is_beyond_and_the_lowest_index_of_equals() -> None:
    geometry = line(0.0, 9.0, 1.0, -1.0, 0.5)
    assert mined("semihard", geometry, [0, 0, 1, 2, 3], mode="closest")[0] == [0, 1, 2]
    geometry = line(0.0, 0.5, 1.0, -1.0, 3.0)
    assert mined("semihard", geometry, [0, 0, 1, 2, 3], mode="closest")[0] == [0, 1, 2]


@pytest.mark.parametrize("margin", [0.5, None])
def test_semihard_all_is_the_slow_loop(cloud: Geometry, margin: float | None) -> None:
    d = cloud.distance.tolist()
    limit = math.inf if margin is None else margin
    expected = [
        [a, p, n]
        for a, p in pairs(LABELS)
        for n in range(10)
        if LABELS[n] != LABELS[a] and 0 < d[a][n] - d[a][p] <= limit
    ]
    assert mined("semihard", cloud, LABELS, mode="all", margin=margin) == expected


def test_semihard_random_draws_any_negative_when_none_is_semihard() -> None:
    law = miners.create("semihard").probabilities(line(0.0, 5.0, 1.0, 2.0), torch.tensor([0, 0, 1, 2]))  # type: ignore[attr-defined]
    assert law["fallback"][0, 1] == 1
    assert law["negative_given_positive"][0, 1].tolist() == [0, 0, 0.5, 0.5]


def test_softhard_candidates_are_the_slow_loop(cloud: Geometry) -> None:
    law = miners.create("softhard").probabilities(cloud, torch.tensor(LABELS))  # type: ignore[attr-defined]
    d = cloud.distance.tolist()
    for a in range(10):
        positive = [j for j in range(10) if j != a and LABELS[j] == LABELS[a]]
        negative = [j for j in range(10) if LABELS[j] != LABELS[a]]
        if not positive:
            assert not law["positive"][a].any()
            continue
        hard_p = [p for p in positive if d[a][p] > min(d[a][n] for n in negative)] or positive
        hard_n = [n for n in negative if d[a][n] < max(d[a][p] for p in positive)] or negative
        assert law["positive"][a].nonzero().flatten().tolist() == hard_p
        assert law["negative"][a].nonzero().flatten().tolist() == hard_n


@pytest.mark.parametrize(("lower", "upper"), [(0.5, None), (0.9, 1.4)])
def test_distance_weights_are_the_slow_loop(lower: float, upper: float | None) -> None:
    points = Geometry(torch.randn(10, 6, generator=stream(0, "sphere"), dtype=torch.float64), normalize=True)
    miner = miners.create("distance_weighted", lower=lower, upper=upper, empty="skip")
    law = miner.probabilities(points, torch.tensor(LABELS))["negative"]  # type: ignore[attr-defined]
    for a in [i for i in range(10) if LABELS.count(LABELS[i]) > 1]:
        weights = [0.0] * 10
        for n in range(10):
            far = max(float((points.rows[a] - points.rows[n]).norm()), lower)
            if LABELS[n] != LABELS[a] and (upper is None or far < upper):
                weights[n] = far ** (2 - 6) * (1 - far**2 / 4) ** (-(6 - 3) / 2)
        total = sum(weights) or 1.0
        assert law[a].tolist() == pytest.approx([w / total for w in weights], rel=1e-9)


def test_distance_weighted_for_each_positive_pairs_every_positive_once(cloud: Geometry) -> None:
    found = mined("distance_weighted", cloud, LABELS, per_anchor="positives", upper=None)
    assert [(a, p) for a, p, _ in found] == pairs(LABELS)


def test_multi_similarity_pairs_are_the_slow_loop() -> None:
    points = Geometry(torch.randn(10, 3, generator=stream(0, "sphere"), dtype=torch.float64), normalize=True)
    miner = miners.create("multi_similarity", epsilon=0.05)
    positive, negative = miner(points, torch.tensor(LABELS), generator=torch.Generator())
    s, expected_p, expected_n = points.similarity.tolist(), [], []
    for i in range(10):
        same = [j for j in range(10) if j != i and LABELS[j] == LABELS[i]]
        other = [j for j in range(10) if LABELS[j] != LABELS[i]]
        if same:
            expected_p += [[i, j] for j in same if s[i][j] < max(s[i][k] for k in other) + 0.05]
            expected_n += [[i, k] for k in other if s[i][k] > min(s[i][j] for j in same) - 0.05]
    assert positive.tolist() == expected_p
    assert negative.tolist() == expected_n


def test_closest_negatives_are_the_same_by_looking_and_by_sorting():
    draw = torch.Generator().manual_seed(0)
    for _ in range(60):
        n = int(torch.randint(1, 30, (1,), generator=draw))
        labels = torch.randint(0, 5, (n,), generator=draw)
        grid = torch.randint(0, 4, (n, 2), generator=draw).float()  # full of ties
        distance = Geometry(grid, normalize=False).distance
        assert torch.equal(_closest(distance, labels), _closest_of_few(distance, class_table(labels)))
