"""Intervals of a score: Student's t over runs; over classes within [0, 1]; none without enough data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from levelfield.evaluation.statistics.crossed import Table
from levelfield.evaluation.statistics.intervals import class_interval, figure_intervals, t_interval


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
    calm, wild = figure_intervals(Table.of(rows, np.ones(60)))
    exact = class_interval(classes, np.ones(60))
    assert wild.half_width > 1.4 * calm.half_width > 1.4 * exact.half_width
