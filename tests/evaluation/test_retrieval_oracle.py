"""Slow oracle: every metric from its definition, over all orders of tied rows."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.evaluation import evaluate

NAMES = ["recall@1", "recall@2", "recall@3", "precision@2", "r_precision", "map@r", "map", "mrr", "map@2"]


def from_list(hits: list[bool]) -> dict[str, float]:
    """Metrics of one ranked list of positives (True) and others."""
    positives = sum(hits)
    if not positives:
        return dict.fromkeys(NAMES, 0.0)
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
    found: dict[str, list[float]] = {name: [] for name in NAMES}
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
        ties: evaluate(points, labels, metrics=NAMES, distance="euclidean", ties=ties)
        for ties in ("expected", "pessimistic", "optimistic")
    }
    for query in range(size):
        orders = over_all_orders(points, labels, query)
        for name in NAMES:
            got = [results[ties].per_query[name][query] for ties in ("expected", "pessimistic", "optimistic")]
            want = [np.mean(orders[name]), np.min(orders[name]), np.max(orders[name])]
            np.testing.assert_allclose(got, want, atol=1e-12, err_msg=name)
