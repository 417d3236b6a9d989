"""Intervals of retrieval metrics: right on average, blind to the order of queries, and none where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import evaluate
from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import mean_of
from levelfield.evaluation.statistics.bootstrap import intervals, resampled_counts


def drawn(seed: int, *, classes: int, spread: float) -> tuple[Array, Array]:
    """Hits of queries whose classes are of different difficulty: (values, codes), sizes 2 to 7, true mean 0.6."""
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(classes), random.integers(2, 8, size=classes))
    easiness = 0.6 + random.uniform(-spread, spread, size=classes)
    return (random.random(len(codes)) < easiness[codes]).astype(float), codes


def one(values: Array, codes: Array, **settings: object):
    return intervals({"m": values}, codes, np.ones(len(codes), dtype=bool), **settings)["m"]


@pytest.mark.parametrize("average", ["query", "class"])
def test_class_intervals_hold_the_truth_as_often_as_they_say(average: str) -> None:
    repeats, level = 300, 0.9
    samples = (drawn(seed, classes=60, spread=0.4) for seed in range(repeats))
    found = [one(*sample, average=average, level=level, draws=300) for sample in samples]
    held = np.mean([low <= 0.6 <= high for low, high in (each.classes for each in found)])
    error = math.sqrt(level * (1 - level) / repeats)
    assert abs(held - level) < 4 * error
    # single queries are not independent here, and the interval that takes them for it is too narrow
    naive = np.mean([low <= 0.6 <= high for low, high in (each.queries for each in found)])
    assert naive < held - 4 * error


@pytest.mark.parametrize("average", ["query", "class"])
@pytest.mark.parametrize("classes", [5, 10])
def test_class_intervals_hold_the_truth_with_few_classes_too(average: str, classes: int) -> None:
    """Percentiles of drawn classes cover it in 78 and 87 % of these cases."""
    repeats = 400
    samples = (drawn(seed, classes=classes, spread=0.4) for seed in range(repeats))
    found = [one(*sample, average=average, draws=1).classes for sample in samples]
    held = np.mean([low <= 0.6 <= high for low, high in found if not math.isnan(low)])
    assert held > 0.93 - 2 * math.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("average", ["query", "class"])
def test_query_intervals_hold_the_truth_where_classes_do_not_matter(average: str) -> None:
    repeats, level = 300, 0.9
    samples = (drawn(seed, classes=60, spread=0.0) for seed in range(repeats))
    found = [one(*sample, average=average, level=level, draws=300) for sample in samples]
    held = np.mean([low <= 0.6 <= high for low, high in (each.queries for each in found)])
    assert abs(held - level) < 4 * math.sqrt(level * (1 - level) / repeats)


@pytest.mark.parametrize("average", ["query", "class"])
def test_query_intervals_are_those_of_a_plain_loop(average: str) -> None:
    values, codes = drawn(1, classes=9, spread=0.4)
    order = np.lexsort((values, codes if average == "class" else 0 * codes))
    values, codes = values[order], codes[order]
    whole = np.ones(len(codes), dtype=bool)
    samples = []
    for counts in np.concatenate(list(resampled_counts(len(codes), 200, 3))):
        chosen = np.repeat(np.arange(len(codes)), counts.astype(int))
        samples.append(mean_of(values[chosen], codes[chosen], whole[: len(chosen)], average=average))
    found = one(values, codes, average=average, level=0.8, draws=200, seed=3)
    np.testing.assert_allclose(found.queries, np.quantile(samples, [0.1, 0.9]), rtol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["query", "class"]), st.sampled_from(["exclude", "miss"]))
def test_the_order_of_queries_changes_no_bit(seed: int, average: str, lone: str) -> None:
    random = np.random.default_rng(seed)
    rows, labels = random.normal(size=(30, 3)), random.integers(12, size=30)
    order = random.permutation(30)
    asked = {"metrics": ["recall@1", "map@r", "map"], "average": average, "lone": lone, "ci": 0.9}
    assert evaluate(rows, labels, **asked).intervals == evaluate(rows[order], labels[order], **asked).intervals


def test_an_interval_depends_on_the_seed_and_its_metric_alone() -> None:
    values, codes = drawn(2, classes=20, spread=0.3)
    counted = np.ones(len(codes), dtype=bool)
    values = np.random.default_rng(2).random(len(codes))
    alone = intervals({"a": values}, codes, counted)["a"]
    beside = intervals({"b": 1 - values / 2, "a": values}, codes, counted)["a"]
    np.testing.assert_allclose([*alone.queries, *alone.classes], [*beside.queries, *beside.classes], rtol=1e-14)
    assert alone == intervals({"a": values}, codes, counted)["a"]
    other = intervals({"a": values}, codes, counted, seed=1)["a"]
    assert alone.queries != other.queries
    assert alone.classes == other.classes  # nothing is drawn for it


def test_lone_queries_are_not_drawn_when_they_do_not_count() -> None:
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(40, 4)), np.repeat(np.arange(8), 5)
    extra = np.concatenate([rows, 9 + random.normal(size=(20, 4))])  # twenty classes of one
    names = np.concatenate([labels, 100 + np.arange(20)])
    out, missed = (evaluate(extra, names, metrics=["map"], lone=lone, ci=0.95) for lone in ("exclude", "miss"))
    low, high = out.intervals["map"].queries
    assert low < out["map"] < high
    kept = intervals({"map": out.per_query["map"][:40]}, labels, np.ones(40, dtype=bool))["map"]
    assert kept == out.intervals["map"]
    low, high = missed.intervals["map"].queries
    assert low < missed["map"] < high
    assert high < out["map"]


def test_few_classes_no_query_or_equal_queries_have_no_interval() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 2))
    one_class = evaluate(rows, np.zeros(6, dtype=int), metrics=["map"], ci=0.95).intervals["map"]
    assert all(map(math.isnan, one_class.classes))
    assert all(map(math.isnan, one_class.queries)), "1.0 to 1.0 would be no interval"
    four = evaluate(rows, [0, 0, 1, 1, 2, 2], metrics=["map"], ci=0.95).intervals["map"]
    assert all(map(math.isnan, four.classes))
    nobody = evaluate(rows, np.arange(6), metrics=["map"], ci=0.95).intervals["map"]
    assert all(map(math.isnan, [*nobody.queries, *nobody.classes]))


def test_clustering_has_its_spread_and_no_interval() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(12, 2)), np.repeat(np.arange(3), 4)
    result = evaluate(rows, labels, metrics=["recall@1", "nmi"], ci=0.95)
    assert list(result.intervals) == ["recall@1"]
    assert evaluate(rows, labels, metrics=["recall@1"]).intervals == {}


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    with pytest.raises(BadSpecification, match=r"between 0 and 1, for example 0\.95"):
        evaluate(np.eye(4), [0, 0, 1, 1], ci=level)
