"""Comparisons of rows: the crossed test against plain loops, Holm's correction, and what would resolve them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.comparisons import Comparison, holm, joint
from levelfield.evaluation.statistics.crossed import PRIOR, UNLIKELY, ClassWeights, ScoreMoments
from levelfield.evaluation.statistics.needed import detectable_effect


def compare_all(rows: Mapping[str, Any], queries: Any, *, fixed: Collection[str] = ()) -> list[Comparison]:
    return joint([ScoreMoments.of(rows, queries, fixed=fixed).differences()])


def made(methods: int, seeds: int, classes: int, *, noise: float = 0.01, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shared = random.uniform(0.2, 0.8, classes)
    own = shared + 0.1 * random.standard_normal((methods, 1, classes))
    values = (
        own
        + noise * random.standard_normal((methods, seeds, 1))
        + 0.02 * random.standard_normal((methods, seeds, classes))
    )
    return dict(zip("abcdefghij", values, strict=False))


def test_one_seed_and_classes_of_one_size_are_students_paired_test() -> None:
    for seed in range(3):
        rows = made(2, 1, 30, seed=seed)
        [one] = compare_all(rows, np.full(30, 7))
        known = stats.ttest_rel(rows[one.first][0], rows[one.second][0])
        assert [one.t, one.df, one.p] == pytest.approx([known.statistic, 29, known.pvalue])
        low, high = known.confidence_interval()
        assert (one.low, one.high) == (pytest.approx(low), pytest.approx(high))
        assert not one.retrained
        [other] = compare_all({"b": rows["b"], "a": rows["a"]}, np.full(30, 7))
        turned = other.seen_from("a")
        assert (turned.first, turned.second) == (one.first, one.second)
        for part in ("difference", "low", "high", "t", "df", "p"):
            assert getattr(turned, part) == pytest.approx(getattr(one, part))


def test_seeds_count_as_a_plain_loop_counts_them() -> None:
    """Every sum of the docstring's equations written out, for rows with different numbers of seeds and class sizes."""
    rows, weights = made(4, 5, 20, noise=0.03), np.random.default_rng(1).integers(2, 9, 20)
    rows["b"] = rows["b"][:3]
    w = weights / weights.sum()
    g = w**2 / (1 - 2 * w + (w**2).sum())
    noise, residual, freedom = {}, {}, {}
    for label, values in rows.items():
        figures = [float(row @ w) for row in values]
        noise[label], freedom[label] = np.var(figures, ddof=1), len(values) - 1
        residual[label] = sum(
            g[c] * (row[c] - values[:, c].mean() - figure + np.mean(figures)) ** 2
            for row, figure in zip(values, figures, strict=True)
            for c in range(20)
        ) / (len(values) - 1)
    pooled, rest, least = np.mean(list(noise.values())), np.mean(list(residual.values())), min(freedom.values())
    found = {(one.first, one.second): one for one in compare_all(rows, weights)}
    apart = {(i, j): rows[i].mean(0) - rows[j].mean(0) for i, j in combinations(rows, 2)}
    spread = {pair: float(g @ (d - d @ w) ** 2) for pair, d in apart.items()}
    for (i, j), d in apart.items():
        by_classes, fewer = (19 * spread[i, j] + np.mean(list(spread.values()))) / 20, min(freedom[i], freedom[j])
        by_seeds, both = (
            sum((PRIOR * common + fewer * own[k]) / (PRIOR + fewer) / (fewer + 1) for k in (i, j))
            for own, common in ((noise, pooled), (residual, rest))
        )
        total = max(by_classes, by_seeds, by_classes + by_seeds - both)
        assert found[i, j].difference == pytest.approx(float(d @ w))
        assert found[i, j].t == pytest.approx(float(d @ w) / np.sqrt(total))
        share = dict.fromkeys(rows, 2 * PRIOR / (PRIOR + fewer) / (fewer + 1) / len(rows))
        for k in (i, j):
            share[k] += fewer / (PRIOR + fewer) / (fewer + 1)
        doubt = sum(share[k] ** 2 * noise[k] ** 2 / least for k in rows)
        classes_freedom = ClassWeights.of(weights).freedom
        seeds_freedom = by_seeds**2 / doubt
        bound = by_seeds * seeds_freedom / stats.chi2.ppf(UNLIKELY, seeds_freedom)
        df = (by_classes + bound) ** 2 / (by_classes**2 / classes_freedom + bound**2 / seeds_freedom)
        assert found[i, j].df == pytest.approx(min(df, classes_freedom))


def test_a_noisier_seed_makes_a_smaller_t_and_a_fixed_row_adds_nothing() -> None:
    calm, wild = (
        {one.second: one for one in compare_all(made(3, 5, 50, noise=noise), np.ones(50)) if one.first == "a"}
        for noise in (0.0, 0.2)
    )
    assert abs(wild["b"].high - wild["b"].low) > 3 * abs(calm["b"].high - calm["b"].low)
    rows = made(3, 5, 50, noise=0.1)
    rows["exact"] = rows["a"][:1]
    table = ScoreMoments.of(rows, np.ones(50), fixed=["exact"])
    seeds = table.differences("b", "exact").variance.seeds[0]
    both = table.differences("b", "c").variance.seeds[0]
    own = {label: table.differences(label, "exact").variance.seeds[0] for label in "bc"}
    assert both == pytest.approx(own["b"] + own["c"])
    assert seeds == pytest.approx(own["b"])
    two = made(2, 2, 50, noise=0.1)
    [one] = compare_all({"a": two["a"], "b": two["b"][:1]}, np.ones(50), fixed=["b"])
    assert 1 <= one.df < 1.1


def test_fewer_than_five_classes_are_not_tested() -> None:
    [four] = compare_all({"a": [[0.9, 0.8, 0.9, 0.8]], "b": [[0.1, 0.2, 0.1, 0.3]]}, np.ones(4))
    assert (four.p, four.adjusted, four.low, four.high, four.t) == (None,) * 5
    assert not four.better()
    [five] = compare_all({"a": [[0.9, 0.8, 0.9, 0.8, 0.8]], "b": [[0.1, 0.2, 0.1, 0.3, 0.2]]}, np.ones(5))
    assert five.winner == "a"


def test_the_same_difference_in_every_class_is_no_evidence() -> None:
    a = np.random.default_rng(0).random(8)
    for other in (a, a - 0.125):
        [one] = compare_all({"a": a, "b": other}, np.ones(8))
        assert (one.p, one.low, one.high) == (None, None, None)


@pytest.mark.parametrize(
    ("a", "weights", "text"),
    [
        (np.ones((3, 4)), np.ones(5), "4 classes but the weights have 5"),
        (np.full((1, 4), np.nan), np.ones(4), "seed 0, class 0"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(a: np.ndarray, weights: np.ndarray, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        compare_all({"a": a, "b": a}, weights)


def test_a_single_seed_beside_rows_of_several_is_about_that_run() -> None:
    rows = made(4, 3, 20)
    rows["a"], rows["d"] = rows["a"][:1], rows["d"][:1]
    told = {(one.first, one.second): one.retrained for one in compare_all(rows, np.full(20, 7), fixed=["d"])}
    assert {pair for pair, retrained in told.items() if not retrained} == {("a", "b"), ("a", "c"), ("a", "d")}


def test_freedom_of_classes_is_that_of_the_matrix() -> None:
    w = np.random.default_rng(2).random(9)
    w /= w.sum()
    centre = np.eye(9) - np.outer(np.ones(9), w)
    form = centre.T @ np.diag(w**2 / (1 - 2 * w + w @ w)) @ centre
    found = ClassWeights.of(w)
    assert found.freedom == pytest.approx(np.trace(form) ** 2 / np.trace(form @ form))
    assert np.trace(form) == pytest.approx(w @ w)  # unbiased if all classes vary equally


def levels(**of: float) -> dict[str, np.ndarray]:
    random = np.random.default_rng(9)
    shared = random.random((1, 200))
    return {name: shared + level + 0.05 * random.standard_normal((3, 200)) for name, level in of.items()}


def test_holm_agrees_with_its_step_down_definition_and_keeps_order() -> None:
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_several_tables_are_corrected_together_and_for_what_is_beside() -> None:
    table = ScoreMoments.of(levels(a=0.0, b=0.03), np.ones(200)).differences()
    [alone] = joint([table])
    twice = joint([table, table])
    assert [one.adjusted for one in twice] == pytest.approx([2 * alone.p] * 2)  # type: ignore[operator]
    assert joint([table], other_p_values=[0.9])[0].adjusted == pytest.approx(2 * alone.p)  # type: ignore[operator]


def test_identical_methods_stay_a_tie_beside_many_others() -> None:
    random = np.random.default_rng(1)
    rows = {str(i): random.random((3, 37)) for i in range(7)}
    rows["twin"] = rows["3"]
    found = compare_all(rows, random.integers(2, 9, 37))
    twin = next(one for one in found if (one.first, one.second) == ("3", "twin"))
    assert (twin.difference, twin.p, twin.winner) == (0.0, None, None)


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


@pytest.mark.parametrize("seed", [5, 6, 51])
def test_what_would_resolve_a_tie_is_more_than_was_tried(seed: int) -> None:
    """Two seeds, whose degrees of freedom are as poorly known as their variance."""
    rows = made(2, 2, 12, seed=seed)
    [one] = compare_all(rows | {"a": rows["a"] + 0.1}, np.ones(12))
    assert one.missing == "seeds"
    assert 2 < one.needed_seeds.number <= one.needed_seeds.low + 1


def test_a_tie_says_if_only_the_correction_made_it_one() -> None:
    pairs = compare_all(made(10, 3, 40), np.ones(40))
    alone = [one for one in pairs if one.only_alone]
    assert 0 < len(alone) < len(pairs)
    for one in alone:
        assert not one.better()
        assert one.low * one.high > 0
        assert one.only_alone == "significant alone, not after correction for 45 comparisons"


def test_a_smaller_difference_needs_more_and_none_at_all_has_no_number() -> None:
    small, large = (tie(0.0002, 0.06, difference=size).needed_classes for size in (0.01, 0.02))
    assert small.number > 3 * large.number
    assert small.low <= small.number
    assert small.high is None, "the difference may be 0"
    assert tie(0.0002, 0.06, difference=1e-7).missing == ""


def test_the_difference_that_a_plan_can_find_is_the_one_its_tests_would() -> None:
    """Against the noncentral t of a plain paired test."""
    size = detectable_effect(50, 1, 10, over_classes=0.2, over_seeds=0.01)
    critical = stats.t.ppf(1 - 0.05 / 20, 49)
    assert stats.nct.sf(critical, 49, size / (0.2 / np.sqrt(50))) == pytest.approx(0.8, abs=0.01)


def test_two_classes_of_unequal_weight_get_advice() -> None:
    """Their degrees of freedom are just below 1, so known variances set no limit."""
    rows = {"a": np.array([[0.60, 0.50]]), "b": np.array([[0.50, 0.46]])}
    [one] = compare_all(rows, np.array([3.0, 7.0]))
    assert one.missing == "classes"
    assert 5 <= one.needed_classes.number < 1000
