from __future__ import annotations

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.studies.statistics import (
    class_bootstrap_interval,
    compare_all,
    holm,
    paired_bootstrap,
    t_interval,
    ties,
)


def test_one_run_has_no_interval():
    assert t_interval([0.5]) is None


@pytest.mark.parametrize(
    ("level", "freedom", "quantile"),  # as printed in tables of Student's distribution
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 9, 2.262), (0.95, 30, 2.042), (0.8, 3, 1.638),
     (0.9, 9, 1.833), (0.99, 4, 4.604), (0.998, 9, 4.297)],
)  # fmt: skip
def test_the_interval_has_the_quantile_of_the_tables(level, freedom, quantile):
    runs = np.random.default_rng(freedom).random(freedom + 1)
    half = t_interval(runs, level=level).half_width
    assert half * np.sqrt(len(runs)) / runs.std(ddof=1) == pytest.approx(quantile, abs=5e-4)


def test_holm_agrees_with_its_step_down_definition_and_keeps_order():
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_identical_methods_are_a_tie_with_p_one():
    values = np.random.default_rng(0).random((3, 50))
    found = paired_bootstrap(values, values.copy(), np.ones(50))
    assert (found.p, found.difference, found.low, found.high) == (1.0, 0.0, 0.0, 0.0)
    assert not found.real()


def test_identical_methods_stay_a_tie_beside_many_others():
    random = np.random.default_rng(1)
    table = {str(i): random.random((3, 37)) for i in range(7)}
    table["twin"] = table["3"]
    found = compare_all(table, random.integers(2, 9, 37))
    twin = next(one for one in found if (one.first, one.second) == ("3", "twin"))
    assert twin.p == twin.adjusted == 1.0


def test_difference_is_the_query_mean_averaged_over_seeds():
    random = np.random.default_rng(2)
    weights = random.integers(1, 6, 8)
    a, b = random.random((3, 8)), random.random((1, 8))
    by_query = [np.repeat(row, weights).mean() - np.repeat(b[0], weights).mean() for row in a]
    assert paired_bootstrap(a, b, weights).difference == pytest.approx(np.mean(by_query))


def test_resampling_agrees_with_a_plain_loop_over_drawn_classes():
    random = np.random.default_rng(3)
    weights, d = random.integers(1, 9, 30), random.normal(0.05, 0.2, 30)
    loop = []
    for _ in range(4000):
        drawn = random.integers(30, size=30)
        loop.append((d[drawn] * weights[drawn]).sum() / weights[drawn].sum())
    found = paired_bootstrap(d[None], np.zeros((1, 30)), weights)
    low, high = np.quantile(loop, [0.025, 0.975])
    assert (found.low, found.high) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))
    one = class_bootstrap_interval(d[None], weights)
    assert (one.mean, one.low, one.high) == (pytest.approx(found.difference), found.low, found.high)


def test_rejection_rate_under_the_null_is_about_alpha():
    random = np.random.default_rng(4)
    weights = random.integers(2, 10, 80)
    trials = 400
    rejected = 0
    for trial in range(trials):
        shared = random.random((1, 80))  # classes are easy or hard for both: the pairing must remove it
        a, b = (shared + 0.1 * random.standard_normal((3, 80)) for _ in range(2))
        rejected += paired_bootstrap(a, b, weights, draws=1000, seed=trial).p < 0.05
    # 0.05 +- 3 standard errors (0.011), and the bootstrap's known slight optimism with 80 classes
    assert 0.015 < rejected / trials < 0.095


def test_a_true_difference_is_found_although_single_intervals_overlap():
    random = np.random.default_rng(5)
    shared = random.random((1, 100))
    a, b = shared + 0.03 + 0.02 * random.standard_normal((3, 100)), shared + 0.02 * random.standard_normal((3, 100))
    weights = np.full(100, 6)
    assert class_bootstrap_interval(a, weights).low < class_bootstrap_interval(b, weights).high
    assert paired_bootstrap(a, b, weights).p < 0.001


def test_shuffling_classes_changes_nothing_beyond_resampling_noise():
    random = np.random.default_rng(6)
    a, b, weights = random.random((3, 60)), random.random((3, 60)) - 0.05, random.integers(2, 9, 60)
    order = random.permutation(60)
    first, second = paired_bootstrap(a, b, weights), paired_bootstrap(a[:, order], b[:, order], weights[order])
    assert second.difference == pytest.approx(first.difference, abs=1e-12)
    assert (second.low, second.high, second.p) == (
        pytest.approx(first.low, abs=0.005), pytest.approx(first.high, abs=0.005), pytest.approx(first.p, abs=0.02))


def test_swapping_two_methods_mirrors_the_comparison():
    random = np.random.default_rng(7)
    a, b, weights = random.random((3, 40)), random.random((3, 40)), random.integers(2, 9, 40)
    one, other = paired_bootstrap(a, b, weights), paired_bootstrap(b, a, weights)
    assert one.p == other.p
    assert (one.difference, one.low) == (pytest.approx(-other.difference), pytest.approx(-other.high))


def test_pairs_of_a_table_see_the_same_draws_as_a_pair_alone():
    random = np.random.default_rng(8)
    table = {name: random.random((2, 45)) for name in "abc"}
    weights = random.integers(2, 9, 45)
    alone = paired_bootstrap(table["a"], table["c"], weights)
    among = next(one for one in compare_all(table, weights) if (one.first, one.second) == ("a", "c"))
    assert (among.low, among.high, among.p) == (pytest.approx(alone.low), pytest.approx(alone.high), alone.p)


def test_many_pairs_get_enough_draws_for_a_claim_to_be_possible():
    table = {str(i): np.full((1, 5), float(i)) for i in range(30)}
    assert all(one.real() for one in compare_all(table, np.ones(5)))


def test_groups_hold_what_cannot_be_told_from_their_best():
    random = np.random.default_rng(9)
    shared = random.random((1, 200))
    levels = {"worst": 0.0, "second": 0.2, "best": 0.201}
    table = {name: shared + level + 0.05 * random.standard_normal((3, 200)) for name, level in levels.items()}
    groups = ties(compare_all(table, np.ones(200)))
    assert [sorted(group) for group in groups] == [["best", "second"], ["worst"]]
    assert ties([]) == []


@pytest.mark.parametrize(("a", "b", "weights", "text"), [
    (np.ones((3, 4)), np.ones((2, 4)), np.ones(4), "same seeds"),
    (np.ones((3, 4)), np.ones((3, 5)), np.ones(4), "same classes"),
    (np.ones((1, 4)), np.ones((1, 4)), np.ones(3), "one positive number"),
    (np.full((1, 4), np.nan), np.ones((1, 4)), np.ones(4), "seed 0 and class 0"),
])
def test_tables_that_cannot_be_paired_are_refused(a, b, weights, text):
    with pytest.raises(BadInput, match=text):
        paired_bootstrap(a, b, weights)
