"""Clusterings: k-means against plain steps of Lloyd, and scores against scikit-learn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn import metrics

from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, kmeans
from levelfield.evaluation.metrics import clustering
from levelfield.evaluation.metrics.kmeans import nearest
from levelfield.evaluation.search.distances import half_squares
from levelfield.evaluation.search.order import canonical_order
from levelfield.evaluation.search.products import product
from levelfield.evaluation.search.threads import torch_threads
from levelfield.randomness import numpy_stream

Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]  # larger is nearer


def plain_lloyd(rows: np.ndarray, clusters: int, scores: Scores, *, seed: int, start: int, steps: int) -> np.ndarray:
    """Every row against every centre, every mean anew, every step."""
    order = canonical_order(rows, np.zeros(len(rows)))
    rows = rows[order]
    centres = rows[numpy_stream(seed, "kmeans", start).choice(len(rows), clusters, replace=False)]
    label = scores(rows, centres).argmax(axis=1)
    for _ in range(steps):
        split_largest_for_empty(rows, label, clusters)
        for one in np.unique(label):
            total = np.zeros_like(rows[0])
            for row in rows[label == one]:
                total += row
            centres[one] = total / total.dtype.type((label == one).sum())
        label = scores(rows, centres).argmax(axis=1)
    result = np.empty(len(rows), dtype=np.int64)
    result[order] = label
    return result


def split_largest_for_empty(rows: np.ndarray, label: np.ndarray, clusters: int) -> None:
    for empty in sorted(set(range(clusters)) - set(label.tolist())):
        members = {one: rows[label == one] for one in np.unique(label)}
        sizes = {one: len(own) for one, own in members.items() if len(np.unique(own, axis=0)) > 1}
        if sizes:
            largest = max(sizes, key=lambda one: (sizes[one], -one))
            spread = np.square(members[largest] - members[largest].mean(axis=0)).sum(axis=1)
            label[np.flatnonzero(label == largest)[np.argsort(-spread, kind="stable")[: sizes[largest] // 2]]] = empty


def minus_distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return -((rows[:, None] - centres[None]) ** 2).sum(axis=2)


def engine_scores(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The arithmetic of the engine, so that also scores that are level up to rounding must be decided alike."""
    half = 0.5 * np.square(centres.astype(np.float64)).sum(axis=1)
    return product(rows, centres) - half.astype(rows.dtype)


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_agrees_with_lloyd_by_plain_distances(start, steps):
    random = np.random.default_rng(0)
    rows = random.normal(size=(25, 6))[random.integers(0, 25, 400)] + 0.8 * random.normal(size=(400, 6))
    want = plain_lloyd(rows, 25, minus_distances, seed=5, start=start, steps=steps)
    np.testing.assert_array_equal(kmeans(rows, 25, seed=5, start=start, steps=steps), want)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "clusters", "dim"), [(700, 60, 16), (1500, 1100, 5), (600, 3, 40), (500, 200, 2)])
def test_skipping_changes_no_label(kind, count, clusters, dim):
    random = np.random.default_rng(1)
    rows = random.normal(size=(clusters, dim))[random.integers(0, clusters, count)]
    rows = (rows + 0.7 * random.normal(size=(count, dim))).astype(kind)
    want = plain_lloyd(rows, clusters, engine_scores, seed=2, start=0, steps=20)
    np.testing.assert_array_equal(kmeans(rows, clusters, seed=2), want)


def crowded(random: np.random.Generator) -> tuple[np.ndarray, int]:
    """Few rows on a coarse grid, and clusters: full of ties, duplicates, empty clusters, and means rounded alike."""
    count, dim = int(random.integers(4, 40)), int(random.integers(1, 3))
    step, kind = random.choice([1.0, 0.1]), (np.float32, np.float64)[random.integers(2)]
    rows = (step * random.integers(0, random.choice([3, 6, 12]), size=(count, dim))).astype(kind)
    return rows, int(random.integers(1, count + 1))


@pytest.mark.parametrize("seed", range(8))
def test_skipping_changes_no_label_with_ties_duplicates_and_empty_clusters(seed):
    random = np.random.default_rng(seed)
    for start in range(12):
        rows, clusters = crowded(random)
        steps = int(random.choice([0, 1, 2, 20]))
        want = plain_lloyd(rows, clusters, engine_scores, seed=seed, start=start, steps=steps)
        np.testing.assert_array_equal(kmeans(rows, clusters, seed=seed, start=start, steps=steps), want)
        shuffled = random.permutation(len(rows))  # the order of rows decides no tie
        found = kmeans(rows[shuffled], clusters, seed=seed, start=start, steps=steps)
        np.testing.assert_array_equal(found, want[shuffled])


def test_of_equal_centres_the_first_is_nearest_in_whatever_block_the_others_are():
    centres = np.random.default_rng(12).normal(size=(2500, 4))
    centres[[1400, 2000]] = centres[300]
    _, found = nearest(centres[[2000, 1400]], centres, half_squares(centres), columns=np.arange(2500))
    assert found.tolist() == [300, 300]
    _, found = nearest(centres[[2000, 1400]], centres, half_squares(centres), columns=np.arange(301, 2500))
    assert found.tolist() == [1400, 1400]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_neither_order_of_rows_nor_threads_change_a_label(kind):
    random = np.random.default_rng(4)
    rows = (random.normal(size=(300, 24))[random.integers(0, 300, 2500)] + random.normal(size=(2500, 24))).astype(kind)
    shuffled = random.permutation(2500)
    with torch_threads(1):
        want = kmeans(rows, 300)
        np.testing.assert_array_equal(kmeans(rows[shuffled], 300), want[shuffled])
    with torch_threads(2):
        np.testing.assert_array_equal(kmeans(rows, 300), want)


def test_rows_are_not_copied():
    rows = np.random.default_rng(7).normal(size=(40_000, 64)).astype(np.float32)
    tracemalloc.start()
    kmeans(rows, 5, steps=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes


def test_empty_clusters_are_refilled_from_the_largest():
    # 90 copies of one row: most starts hold it several times, and of equal centres only the lowest number gets rows
    rows = np.concatenate([np.zeros((90, 2)), np.arange(20).reshape(10, 2) + 5.0])
    for seed in range(5):
        assert len(np.unique(kmeans(rows, 8, seed=seed))) == 8
    for clusters in (1, 30):
        assert len(np.unique(kmeans(np.random.default_rng(2).normal(size=(30, 3)), clusters))) == clusters
    for clusters in (0, 31):
        with pytest.raises(BadInput, match="1 to 30"):
            kmeans(np.zeros((30, 2)), clusters)
    whole = np.random.default_rng(8).integers(0, 9, size=(60, 3))
    np.testing.assert_array_equal(kmeans(whole, 6), kmeans(whole.astype(np.float64), 6))


def test_nmi_is_the_mean_over_starts_with_their_spread():
    random = np.random.default_rng(3)
    labels = np.repeat(np.arange(20), 8)
    rows = random.normal(size=(20, 8))[labels] + random.normal(size=(160, 8))
    result = evaluate(rows, labels, metrics=["nmi", "nmi[geometric]"], starts=4)
    assert len(set(result.per_start["nmi"])) > 1
    assert result["nmi"] == pytest.approx(np.mean(result.per_start["nmi"]))
    assert result.spread["nmi"] == pytest.approx(np.std(result.per_start["nmi"], ddof=1))
    once = evaluate(rows, labels, metrics=["nmi"], starts=1)
    assert (once.per_start["nmi"], once.spread["nmi"]) == (result.per_start["nmi"][:1], 0.0)
    assert evaluate(rows, labels, metrics=["nmi"], seed=1)["nmi"] != result["nmi"]


def agree_with_scikit_learn(labels: np.ndarray, found: np.ndarray) -> None:
    table = clustering.tabulate(labels, found)
    for form in ("arithmetic", "geometric", "min", "max"):
        want = metrics.normalized_mutual_info_score(labels, found, average_method=form)
        assert clustering.nmi(table, form=form) == pytest.approx(want, abs=1e-10)
    assert clustering.ari(table) == pytest.approx(metrics.adjusted_rand_score(labels, found), abs=1e-12)
    assert clustering.ami(table) == pytest.approx(metrics.adjusted_mutual_info_score(labels, found), abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("classes", "clusters"), [(2, 2), (5, 9), (30, 3), (40, 40)])
def test_agrees_with_scikit_learn(seed, classes, clusters):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, 120)
    found = np.where(random.random(120) < 0.5, labels % clusters, random.integers(0, clusters, 120))
    agree_with_scikit_learn(labels, found)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
@example([(4, 0)] * 3)  # one class and one cluster
@example([(1, 4), (2, 5), (3, 6)])  # every sample alone in both
@example([(1, 0), (1, 0), (2, 0), (2, 0)])  # one entropy is 0, the other is not
@example([(1, 0), (1, 1), (1, 0), (1, 1)])
def test_agrees_with_scikit_learn_on_any_small_table(pairs):
    labels, found = np.array(pairs).T
    table = clustering.tabulate(labels, found)
    # Where chance alone gives nearly the most there is, AMI is one rounding error divided by another.
    most = (entropy(table.classes) + entropy(table.clusters)) / 2
    assume(table.trivial or most == 0 or most - clustering.expected_mutual_information(table) > 1e-4)
    agree_with_scikit_learn(labels, found)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30), st.randoms())
def test_names_and_order_are_irrelevant(pairs, random):
    names = np.array([2**53 + 1, 2**53, -(2**40), 0, 7, 2**62])
    texts = np.array(["a", "B", "", "ü", "10", "9"])
    labels, found = np.array(pairs).T
    shuffled = np.array(random.sample(range(len(pairs)), len(pairs)))
    table = clustering.tabulate(labels, found)
    renamed = clustering.tabulate(names[labels][shuffled], texts[found][shuffled])
    for metric in (clustering.nmi, clustering.ami, clustering.ari, clustering.f1):
        assert metric(renamed) == metric(table)


def test_many_clusters_stay_quick():
    random = np.random.default_rng(1)
    table = clustering.tabulate(random.integers(0, 11_000, 60_000), random.integers(0, 11_000, 60_000))
    assert abs(clustering.ami(table)) < 0.01  # a loop over all 11,000^2 cells would take minutes
