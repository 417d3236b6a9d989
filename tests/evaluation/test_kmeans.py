from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, kmeans
from levelfield.evaluation.order import canonical_order
from levelfield.randomness import numpy_stream


def plain_lloyd(rows: np.ndarray, clusters: int, *, seed: int, start: int, steps: int = 20) -> np.ndarray:
    """Every distance, every step; for data where no cluster becomes empty."""
    order = canonical_order(rows, np.zeros(len(rows)))
    rows = rows[order]
    centres = rows[numpy_stream(seed, "kmeans", start).choice(len(rows), clusters, replace=False)]
    for step in range(steps + 1):
        label = ((rows[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        if step < steps:
            centres = np.stack([rows[label == one].mean(axis=0) for one in range(clusters)])
    result = np.empty(len(rows), dtype=np.int64)
    result[order] = label
    return result


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_skipping_gives_the_labels_of_plain_lloyd(start, steps):
    random = np.random.default_rng(0)
    rows = random.normal(size=(25, 6))[random.integers(0, 25, 400)] + 0.8 * random.normal(size=(400, 6))
    want = plain_lloyd(rows, 25, seed=5, start=start, steps=steps)
    np.testing.assert_array_equal(kmeans(rows, 25, seed=5, start=start, steps=steps), want)


def test_starts_differ_and_repeat():
    rows = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    np.testing.assert_array_equal(kmeans(rows, 10, seed=3), kmeans(rows, 10, seed=3))
    assert (kmeans(rows, 10, seed=3) != kmeans(rows, 10, seed=3, start=1)).any()


def test_empty_clusters_are_refilled_from_the_largest():
    # 90 copies of one row: most starts hold it several times, and of equal centres only the lowest number gets rows
    rows = np.concatenate([np.zeros((90, 2)), np.arange(20).reshape(10, 2) + 5.0])
    for seed in range(5):
        assert len(np.unique(kmeans(rows, 8, seed=seed))) == 8


def test_identical_rows_share_a_cluster():
    assert len(np.unique(kmeans(np.full((40, 3), 0.1, np.float32), 7))) == 1


@pytest.mark.parametrize("clusters", [1, 30])
def test_one_cluster_and_one_for_each_row(clusters):
    rows = np.random.default_rng(2).normal(size=(30, 3))
    assert len(np.unique(kmeans(rows, clusters))) == clusters


@pytest.mark.parametrize("clusters", [0, 31])
def test_impossible_numbers_of_clusters_are_refused(clusters):
    with pytest.raises(BadInput, match="1 to 30"):
        kmeans(np.zeros((30, 2)), clusters)


def test_nmi_is_the_mean_over_starts_with_their_spread():
    random = np.random.default_rng(3)
    labels = np.repeat(np.arange(20), 8)
    rows = random.normal(size=(20, 8))[labels] + random.normal(size=(160, 8))
    result = evaluate(rows, labels, metrics=["nmi", "nmi[geometric]"], starts=4)
    assert len(set(result.per_start["nmi"])) > 1
    assert result["nmi"] == pytest.approx(np.mean(result.per_start["nmi"]))
    assert result.spread["nmi"] == pytest.approx(np.std(result.per_start["nmi"], ddof=1))
    assert evaluate(rows, labels, metrics=["nmi"], starts=1).per_start["nmi"] == result.per_start["nmi"][:1]
    assert evaluate(rows, labels, metrics=["nmi"], starts=1).spread["nmi"] == 0.0
    assert evaluate(rows, labels, metrics=["nmi"], seed=1)["nmi"] != result["nmi"]
