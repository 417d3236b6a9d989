"""Laws for every query of any sample, including ties, duplicates, zero rows and lone queries; a slow oracle: every
metric from its definition, over all orders of tied rows; another library where it is correct: docs/metrics.md."""

from __future__ import annotations

from itertools import permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

from levelfield.evaluation import evaluate

NAMES = ["recall@1", "recall@2", "recall@5", "precision@1", "precision@3", "r_precision", "map@r", "map", "mrr"]
NAMES += ["map@3", "map@c[released]", "map@c[equation]", "map@1000"]
DISTANCES = st.sampled_from(["cosine", "euclidean", "dot", "hamming"])
TIES = st.sampled_from(["expected", "pessimistic", "optimistic"])
SLACK = 1e-12


@st.composite
def samples(draw, least=2, most=12):
    """Few whole numbers, so that most rows are level with some other."""
    size = draw(st.integers(least, most))
    cell = st.integers(-1, 2)
    rows = draw(st.lists(st.tuples(cell, cell, cell), min_size=size, max_size=size))
    labels = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return np.array(rows, dtype=np.float32), np.array(labels)


@settings(max_examples=60, deadline=None)
@given(samples(), DISTANCES, TIES)
def test_metrics_are_ordered_as_their_definitions_say(sample, distance, ties):
    found = evaluate(*sample, metrics=NAMES, distance=distance, ties=ties).per_query
    for lower, upper in (
        ("map@r", "r_precision"),
        ("map@r", "map"),
        ("recall@1", "recall@2"),
        ("recall@1", "mrr"),
        ("recall@2", "recall@5"),
        ("map@3", "map"),
        ("map@c[released]", "map@c[equation]"),
    ):
        assert (found[lower] <= found[upper] + SLACK).all(), (lower, upper)
    for name in NAMES:
        assert (found[name] >= 0).all(), name
        assert (found[name] <= 1 + SLACK).all(), name
    np.testing.assert_allclose(found["recall@1"], found["precision@1"], atol=SLACK)
    np.testing.assert_allclose(found["map@1000"], found["map"], atol=SLACK)


@settings(max_examples=60, deadline=None)
@given(samples(), DISTANCES)
def test_chance_lies_between_the_worst_and_the_best_order(sample, distance):
    worst, mean, best = (
        evaluate(*sample, metrics=NAMES, distance=distance, ties=ties).per_query
        for ties in ("pessimistic", "expected", "optimistic")
    )
    for name in NAMES:
        assert (worst[name] <= mean[name] + SLACK).all(), name
        assert (mean[name] <= best[name] + SLACK).all(), name


@settings(max_examples=60, deadline=None)
@given(samples(), samples(), DISTANCES, TIES)
def test_a_gallery_class_nobody_asks_for_never_raises_a_metric(sample, extra, distance, ties):
    points, labels = sample
    # the shift and scale that `euclidean` takes from the gallery are exact for these whole numbers
    given_rows = {"query_ids": np.arange(len(points)), "metrics": NAMES, "distance": distance, "ties": ties}
    before = evaluate(points, labels, gallery=points, gallery_labels=labels, **given_rows).per_query
    after = evaluate(
        points,
        labels,
        gallery=np.concatenate([points, extra[0]]),
        gallery_labels=np.concatenate([labels, np.full(len(extra[0]), 9)]),
        **given_rows,
    ).per_query
    for name in NAMES:
        assert (after[name] <= before[name] + SLACK).all(), name


@settings(max_examples=40, deadline=None)
@given(samples(), DISTANCES, TIES, st.randoms(use_true_random=False))
def test_order_and_names_change_no_bit_and_self_search_is_a_gallery_with_ids(sample, distance, ties, random):
    points, labels = sample
    order = np.array(random.sample(range(len(points)), len(points)))
    chosen = {"metrics": NAMES, "distance": distance, "ties": ties}
    one = evaluate(points, labels, **chosen)
    other = evaluate(points[order], np.array([f"{9 - label}" for label in labels[order]]), **chosen)
    asked = evaluate(
        points, labels, gallery=points[order], gallery_labels=labels[order], query_ids=np.argsort(order), **chosen
    )
    for name in NAMES:
        np.testing.assert_array_equal(one.per_query[name][order], other.per_query[name])
        np.testing.assert_array_equal(one.per_query[name], asked.per_query[name])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=14), st.integers(1, 16), DISTANCES)
def test_a_collapsed_net_finds_by_chance(labels, k, distance):
    rows = np.tile(np.float32([0.3, -0.7, 1.1]), (len(labels), 1))
    found = evaluate(rows, labels, metrics=[f"recall@{k}"], distance=distance).per_query[f"recall@{k}"]
    others = len(labels) - 1
    for value, label in zip(found, labels, strict=True):
        positives = labels.count(label) - 1
        wanted = 1 - comb(others - positives, min(k, others)) / comb(others, min(k, others)) if positives else 0
        assert abs(value - wanted) < 1e-12


@settings(max_examples=40, deadline=None)
@given(samples(), TIES)
def test_bits_rank_as_the_euclidean_distance_of_zeros_and_ones(sample, ties):
    points, labels = sample
    bits, zeros_and_ones = (
        evaluate(rows, labels, metrics=NAMES, distance=distance, ties=ties)
        for rows, distance in ((points, "hamming"), ((points > 0).astype(np.float64), "euclidean"))
    )
    for name in NAMES:
        np.testing.assert_array_equal(bits.per_query[name], zeros_and_ones.per_query[name])


BY_HAND = ["recall@1", "recall@2", "recall@3", "precision@2", "r_precision", "map@r", "map", "mrr", "map@2"]


def from_list(hits: list[bool]) -> dict[str, float]:
    """Metrics of one ranked list of positives (True) and others."""
    positives = sum(hits)
    if not positives:
        return dict.fromkeys(BY_HAND, 0.0)
    precision_at_hit = [sum(hits[: place + 1]) / (place + 1) if hit else 0.0 for place, hit in enumerate(hits)]
    return {
        "recall@1": any(hits[:1]),
        "recall@2": any(hits[:2]),
        "recall@3": any(hits[:3]),
        "precision@2": sum(hits[:2]) / 2,
        "r_precision": sum(hits[:positives]) / positives,
        "map@r": sum(precision_at_hit[:positives]) / positives,
        "map": sum(precision_at_hit) / positives,
        "mrr": 1 / (1 + hits.index(True)),
        "map@2": sum(precision_at_hit[:2]) / positives,
    }


def over_all_orders(points: np.ndarray, labels: np.ndarray, query: int) -> dict[str, list[float]]:
    """Each metric of one query under every order of the other rows that its distances allow."""
    others = [row for row in range(len(points)) if row != query]
    found: dict[str, list[float]] = {name: [] for name in BY_HAND}
    for order in permutations(others):
        ranked = sorted(order, key=lambda row: ((points[row] - points[query]) ** 2).sum())
        for name, value in from_list([bool(labels[row] == labels[query]) for row in ranked]).items():
            found[name].append(float(value))
    return found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_ties_give_mean_worst_and_best_over_all_orders(data):
    size = data.draw(st.integers(2, 6))
    cell = st.integers(-1, 1)
    points = np.array(data.draw(st.lists(st.tuples(cell, cell), min_size=size, max_size=size)), dtype=np.float32)
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)))
    results = {
        ties: evaluate(points, labels, metrics=BY_HAND, distance="euclidean", ties=ties)
        for ties in ("expected", "pessimistic", "optimistic")
    }
    for query in range(size):
        orders = over_all_orders(points, labels, query)
        for name in BY_HAND:
            got = [results[ties].per_query[name][query] for ties in ("expected", "pessimistic", "optimistic")]
            want = [np.mean(orders[name]), np.min(orders[name]), np.max(orders[name])]
            np.testing.assert_allclose(got, want, atol=1e-12, err_msg=name)


THEIRS = {
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map@r",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
}
SEARCH = {"cosine": CosineSimilarity(), "euclidean": LpDistance(normalize_embeddings=False)}


@pytest.fixture
def unequal():
    """Overlapping classes of uneven size, some of them of one row; no ties."""
    random = np.random.default_rng(0)
    labels = np.concatenate([random.integers(0, 60, 700), np.arange(100, 110)])
    return (random.normal(size=(110, 16))[labels] + 1.3 * random.normal(size=(710, 16))).astype(np.float32), labels


@pytest.mark.parametrize("distance", SEARCH)
@pytest.mark.parametrize("average", ["query", "class"])
def test_self_search_and_queries_in_a_gallery_give_the_numbers_of_pml(unequal, distance, average):
    calculator = AccuracyCalculator(
        tuple(THEIRS), knn_func=CustomKNN(SEARCH[distance]), kmeans_func=id, avg_of_avgs=average == "class"
    )
    points, labels = unequal
    queries, gallery = (points[::3], labels[::3]), (np.delete(points, np.s_[::3], 0), np.delete(labels, np.s_[::3]))
    beside = {"gallery": gallery[0], "gallery_labels": gallery[1]}
    for asked, others, theirs in (
        (unequal, {}, calculator.get_accuracy(*unequal)),
        (queries, beside, calculator.get_accuracy(*queries, *gallery)),
    ):
        ours = evaluate(*asked, **others, metrics=THEIRS.values(), distance=distance, average=average)
        assert ours.n_lone > 0
        assert {name: ours[own] for name, own in THEIRS.items()} == pytest.approx(theirs, abs=1e-4)
