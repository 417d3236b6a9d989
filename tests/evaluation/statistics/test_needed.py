"""Numbers needed to resolve a tie: seeds, classes or both, and cases without an estimate."""

from __future__ import annotations

import numpy as np
import pytest
from compared import compare_all

from levelfield.evaluation.statistics.comparisons import Comparison
from levelfield.evaluation.statistics.needed import detectable_effect

CLASSES = 40


def tie(over_seeds: float, over_classes: float, *, seeds: int = 3, difference: float = 0.02) -> Comparison:
    """Two rows with exactly this difference and spread of whole seeds, and about this spread of classes."""
    random = np.random.default_rng(4)
    base, rows = random.uniform(0.4, 0.6, CLASSES), {}
    for label, level in (("a", difference), ("b", 0.0)):
        own = over_classes * random.standard_normal(CLASSES)
        moved = over_seeds * np.linspace(-1, 1, seeds)[:, None] if seeds > 1 else np.zeros((1, 1))
        rows[label] = base + level + own - own.mean() + moved
    [one] = compare_all(rows, np.ones(CLASSES))
    assert not one.better()
    assert one.difference == pytest.approx(difference)
    return one


def test_seeds_are_missing_where_they_differ_and_classes_where_those_do() -> None:
    seeds, classes = tie(0.02, 0.002), tie(0.0002, 0.06)
    assert (seeds.missing, classes.missing) == ("seeds", "classes")
    assert 3 < seeds.needed_seeds.number < 100
    assert CLASSES < classes.needed_classes.number < 1000
    for one in (tie(0.004, 0.06), tie(0.0, 0.06, seeds=1)):  # no number of seeds would do
        assert (one.missing, one.needed_seeds) == ("classes", None)


def test_a_smaller_difference_needs_more_and_none_at_all_has_no_number() -> None:
    small, large = (tie(0.0002, 0.06, difference=size).needed_classes for size in (0.01, 0.02))
    assert small.number > 3 * large.number
    assert small.low <= small.number
    assert small.high is None, "the difference may be 0"
    assert tie(0.0002, 0.06, difference=1e-7).missing == ""


def test_the_difference_that_a_plan_can_find_is_the_one_its_tests_would() -> None:
    """Against the noncentral t of a plain paired test."""
    from scipy.stats import nct, t

    size = detectable_effect(50, 1, 10, over_classes=0.2, over_seeds=0.01)
    critical = t.ppf(1 - 0.05 / 20, 49)
    assert nct.sf(critical, 49, size / (0.2 / np.sqrt(50))) == pytest.approx(0.8, abs=0.01)


def test_two_classes_of_unequal_weight_get_advice() -> None:
    """Their degrees of freedom are just below 1, so known variances set no limit."""
    rows = {"a": np.array([[0.60, 0.50]]), "b": np.array([[0.50, 0.46]])}
    [one] = compare_all(rows, np.array([3.0, 7.0]))
    assert one.missing == "classes"
    assert 5 <= one.needed_classes.number < 1000
