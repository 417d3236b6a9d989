"""Intervals of retrieval metrics: correct coverage, independent of the order of queries, none without enough data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelfield import evaluate
from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import class_intervals


def drawn(seed: int, *, classes: int, spread: float) -> tuple[Array, Array]:
    """Hits of queries whose classes are of different difficulty: (values, codes), sizes 2 to 7, true mean 0.6."""
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(classes), random.integers(2, 8, size=classes))
    easiness = 0.6 + random.uniform(-spread, spread, size=classes)
    return (random.random(len(codes)) < easiness[codes]).astype(float), codes


def one(values: Array, codes: Array, **settings: object):
    return class_intervals({"m": values}, codes, np.ones(len(codes), dtype=bool), **settings)["m"]


@pytest.mark.parametrize("average", ["query", "class"])
@pytest.mark.parametrize("classes", [5, 10, 60])
def test_intervals_hold_the_truth_as_often_as_they_say(average: str, classes: int) -> None:
    repeats = 400
    samples = (drawn(seed, classes=classes, spread=0.4) for seed in range(repeats))
    found = [one(*sample, average=average) for sample in samples]
    held = np.mean([each.low <= 0.6 <= each.high for each in found if not math.isnan(each.low)])
    assert held > 0.93 - 2 * math.sqrt(0.05 * 0.95 / repeats)


def test_lone_queries_count_only_as_misses() -> None:
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(40, 4)), np.repeat(np.arange(8), 5)
    extra = np.concatenate([rows, 9 + random.normal(size=(20, 4))])  # twenty classes of one
    names = np.concatenate([labels, 100 + np.arange(20)])
    out, missed = (evaluate(extra, names, metrics=["map"], lone=lone, ci=0.95) for lone in ("exclude", "miss"))
    kept = class_intervals({"map": out.per_query["map"][:40]}, labels, np.ones(40, dtype=bool))["map"]
    assert kept == out.intervals["map"]
    for each in (out, missed):
        assert each.intervals["map"].low < each["map"] < each.intervals["map"].high
    assert missed.intervals["map"].mean == pytest.approx(40 / 60 * out["map"])


def test_few_classes_no_query_and_clustering_have_no_interval() -> None:
    rows = np.random.default_rng(0).normal(size=(8, 2))
    for labels in ([0] * 8, [0, 0, 1, 1, 2, 2, 3, 3], range(8)):
        found = evaluate(rows, labels, metrics=["map", "nmi"], ci=0.95)
        assert list(found.intervals) == ["map"]
        assert np.isnan([found.intervals["map"].low, found.intervals["map"].high]).all()
        assert evaluate(rows, labels, metrics=["map"]).intervals == {}


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    reason = "'ci' is nan; expected a finite number" if math.isnan(level) else r"between 0 and 1, e\.g\. 0\.95"
    with pytest.raises(BadSpecification, match=reason):
        evaluate(np.eye(4), [0, 0, 1, 1], ci=level)
