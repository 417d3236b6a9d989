"""Intervals of scores, of metrics over classes, and of rates of wrong pairs: tables, slow loops, coverage."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from levelfield import evaluate
from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.result import class_intervals
from levelfield.evaluation.statistics.crossed import ScoreMoments
from levelfield.evaluation.statistics.intervals import class_interval, figure_intervals, t_interval
from levelfield.evaluation.statistics.pair_rates import UNSEEN, PairRate, differ


@pytest.mark.parametrize(
    ("level", "freedom", "quantile"),  # as printed in tables of Student's distribution
    [(0.95, 1, 12.706), (0.95, 9, 2.262), (0.8, 3, 1.638), (0.99, 4, 4.604)],
)
def test_the_interval_has_the_quantile_of_the_tables(level: float, freedom: int, quantile: float) -> None:
    runs = np.random.default_rng(freedom).random(freedom + 1)
    found = t_interval(runs, level=level)
    assert found.half_width * np.sqrt(len(runs)) / runs.std(ddof=1) == pytest.approx(quantile, abs=5e-4)
    assert t_interval(runs[:1]) is None


def test_near_one_it_stays_below_one_and_is_longer_below() -> None:
    found = class_interval([1, 1, 0.9, 1, 1, 0.95], np.ones(6))
    assert 0 < found.low < found.mean < found.high < 1
    assert found.mean - found.low > 2 * (found.high - found.mean)


@pytest.mark.parametrize("values", [[0.5] * 4, [0.1, 0.5, 0.9, 0.2], [0.557] * 30, [1.0] * 4])
def test_nothing_is_said_below_five_classes_or_where_all_are_equal(values: list[float]) -> None:
    assert class_interval(values, np.ones(len(values))) is None


@pytest.mark.parametrize("classes", [5, 12, 300])
def test_a_figure_of_0_or_1_has_the_exact_bound_of_so_many_classes(classes: int) -> None:
    perfect, hopeless = (class_interval(np.full(classes, value), np.full(classes, 6)) for value in (1.0, 0.0))
    exact = stats.binomtest(0, classes).proportion_ci(0.95, method="exact").high
    assert (hopeless.low, hopeless.high) == (0.0, pytest.approx(exact))
    assert (perfect.low, perfect.high) == (pytest.approx(1 - exact), 1.0)
    uneven = class_interval(np.ones(classes), [50] + [5] * (classes - 1))
    assert uneven.low < perfect.low, "unequal classes count as fewer"


def test_seeds_that_differ_make_it_longer() -> None:
    random = np.random.default_rng(3)
    classes = random.uniform(0.45, 0.55, 60)
    rows = {"calm": classes + np.zeros((4, 1)), "wild": classes + 0.05 * random.standard_normal((4, 1))}
    calm, wild = figure_intervals(ScoreMoments.of(rows, np.ones(60)))
    exact = class_interval(classes, np.ones(60))
    assert wild.half_width > 1.4 * calm.half_width > 1.4 * exact.half_width


def matches(tables: tuple[np.ndarray, np.ndarray]) -> PairRate:
    """Wrong and all pairs of classes g < h, each for both of its classes."""
    wrong, every = (np.triu(table, 1) for table in tables)
    return PairRate((wrong + wrong.T).sum(axis=0), (every + every.T).sum(axis=0), 2)


def drawn(seed: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    every = np.full((classes, classes), 12)
    hub = random.gamma(2.0, 0.5, classes)
    return random.binomial(every, np.minimum(0.1 * np.outer(hub, hub), 1)), every


def test_the_variance_of_pairs_of_two_classes_is_that_of_classes_left_out() -> None:
    """The jackknife by a loop over the class that is left out; equal for classes of one size."""
    wrong, every = drawn(0, 9)
    left_out = []
    for gone in range(9):
        pairs = [(g, h) for g, h in combinations(range(9), 2) if gone not in (g, h)]
        left_out.append(sum(wrong[g, h] for g, h in pairs) / sum(every[g, h] for g, h in pairs))
    jackknife = 8 / 9 * sum((one - np.mean(left_out)) ** 2 for one in left_out)
    found = matches((wrong, every)).moves
    assert found @ found == pytest.approx(jackknife)


def test_the_interval_is_that_of_the_written_out_equations() -> None:
    errors, pairs = np.array([3, 0, 1, 0, 6, 2, 0, 1]), np.array([10, 3, 6, 1, 15, 10, 6, 3])
    w = pairs / pairs.sum()
    rate, squares = errors.sum() / pairs.sum(), (w**2).sum()
    seen = sum(w[c] ** 2 / (1 - 2 * w[c] + squares) * (errors[c] / pairs[c] - rate) ** 2 for c in range(8))
    variance = ((1 / squares - 1) * seen + UNSEEN * rate * (1 - rate) * squares) / (1 / squares - 1 + UNSEEN)
    rate_of = PairRate(errors, pairs, 1)
    df = min(rate_of.weights.freedom, errors.sum() ** 2 / (errors**2).sum(),
             (pairs - errors).sum() ** 2 / ((pairs - errors) ** 2).sum())  # fmt: skip
    half = stats.t.ppf(0.95, df) * np.sqrt(variance) / (rate * (1 - rate))
    low, high = (1 / (1 + np.exp(-np.log(rate / (1 - rate)) - sign * half)) for sign in (-1, 1))
    units, with_errors = 1 / squares, w[errors > 0].sum() / squares
    high = min(high, stats.beta.ppf(0.95, with_errors + 1, units - with_errors))
    found = rate_of.interval(0.9)
    assert (found.low, found.mean, found.high) == (pytest.approx(low), rate, pytest.approx(high))


@pytest.mark.parametrize(("members", "units"), [(1, 8), (2, 4)])
def test_no_error_has_the_exact_bound_of_classes_or_of_disjoint_pairs_of_them(members: int, units: int) -> None:
    none, every = (PairRate(np.full(8, errors), np.full(8, 20), members).interval(0.95) for errors in (0, 20))
    assert (none.low, none.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / units)))
    assert (every.low, every.high) == (pytest.approx(0.025 ** (1 / units)), 1.0)
    assert PairRate(np.array([1, 0, 2, 0, 0]), np.array([5, 5, 5, 5, 0]), members).interval(0.95) is None, "4 classes"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), min_size=5, max_size=30), st.sampled_from([1, 2]))
def test_an_interval_holds_its_rate_and_is_never_a_point(classes: list[tuple[int, int]], members: int) -> None:
    errors, pairs = np.array([min(one) for one in classes]), np.array([most for _, most in classes])
    found = PairRate(errors, pairs, members).interval(0.95) if (pairs > 0).sum() >= 5 else None
    if found is None:
        return
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.high - found.low > 0.01


def test_rates_that_differ_in_every_class_differ_and_equal_ones_do_not() -> None:
    seldom, often = (PairRate(np.full(30, errors) + np.arange(30) % 2, np.full(30, 100), 1) for errors in (2, 40))
    assert differ(PairRate(seldom.errors, seldom.pairs, 2), often, 0.95)
    assert not differ(PairRate(often.errors, often.pairs, 2), often, 0.95)
    none = PairRate(np.zeros(10), np.full(10, 6), 1)
    assert not differ(PairRate(np.full(10, 2), np.full(10, 100), 2), none, 0.95), "no error in few classes"


def hits(seed: int, *, classes: int, spread: float) -> tuple[Array, Array]:
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
    samples = (hits(seed, classes=classes, spread=0.4) for seed in range(repeats))
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
