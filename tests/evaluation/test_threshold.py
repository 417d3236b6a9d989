"""Thresholds for "same class" and matched unknowns: against plain loops, coverage of intervals, and refusals."""

from __future__ import annotations

import functools
import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.evaluation import same_or_not, unknowns
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.metrics import pairs as pairs_module
from levelfield.evaluation.metrics.pairs import count_by_class, histogram, pair_set

DISTANCES = ["cosine", "euclidean", "dot", "hamming"]


def drawn(seed: int, *, classes: int = 12, dim: int = 6, noise: float = 0.8, most: int = 6) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), random.integers(2, most, size=classes))
    centres = random.normal(size=(classes, dim))
    return centres[labels] + noise * random.normal(size=(len(labels), dim)), labels


def nearness(first: Array, second: Array, distance: str) -> float:
    """Larger is nearer, straight from the definitions."""
    if distance == "cosine":
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    if distance == "dot":
        return float(first @ second)
    return -float(np.sum((first > 0) != (second > 0)) if distance == "hamming" else np.linalg.norm(first - second))


def all_pairs(rows: Array, labels: Array, distance: str) -> tuple[Array, Array]:
    """Nearness of the pairs of one class, and of two."""
    same, other = [], []
    for i, j in combinations(range(len(rows)), 2):
        (same if labels[i] == labels[j] else other).append(nearness(rows[i], rows[j], distance))
    return np.array(same), np.array(other)


def rates_at(value: float, distance: str, same: Array, other: Array) -> tuple[float, float]:
    """Error rates of a threshold."""
    value = value if distance in ("cosine", "dot") else -value
    return float((other >= value).mean()), float((same < value).mean())


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rule", ["equal_error", "balanced", {"false_match": 0.05}], ids=str)
def test_thresholds_are_as_good_as_the_best_of_a_plain_loop(distance: str, rule: str | dict[str, float]) -> None:
    rows, labels = drawn(0)
    same, other = all_pairs(rows, labels, distance)
    tried = [rates_at(value, "cosine", same, other) for value in np.concatenate([same, other, [np.inf]])]
    found = same_or_not(rows, labels, distance=distance, rule=rule, ci=None)
    match, miss = rates_at(found.value, distance, same, other)
    chosen = found.validation
    assert (chosen.false_match.value, chosen.false_non_match.value) == (match, miss)
    assert (chosen.false_match.pairs, chosen.false_non_match.pairs) == (len(other), len(same))
    if rule == "equal_error":
        assert abs(match - miss) == min(abs(a - b) for a, b in tried)
    elif rule == "balanced":
        assert match + miss == min(a + b for a, b in tried)
    else:
        assert match <= 0.05
        assert miss == min(b for a, b in tried if a <= 0.05)


@pytest.mark.parametrize("distance", DISTANCES)
def test_rates_are_those_of_a_plain_loop_and_of_single_decisions(distance: str) -> None:
    found = same_or_not(*drawn(0), distance=distance, ci=None)
    rows, labels = drawn(1)
    rates = found.rates(rows, labels + 100)
    same, different = all_pairs(rows, labels, distance)
    match, miss = rates_at(found.value, distance, same, different)
    assert (rates.false_match.value, rates.false_non_match.value) == (match, miss)
    assert (rates.images, rates.classes) == (len(rows), 12)
    for rate in (rates.false_match, rates.false_non_match):
        assert rate.low < rate.value < rate.high
    first, second = (np.array(side) for side in zip(*combinations(range(len(rows)), 2), strict=True))
    decided = found.same(rows[first], rows[second])
    other = labels[first] != labels[second]
    assert rates.false_match.errors == (decided & other).sum()
    assert rates.false_non_match.errors == (~decided & ~other).sum()
    assert found.same(rows[0], rows).shape == (len(rows),)
    tensors = torch.from_numpy(rows).requires_grad_()
    for one in (tensors[:1], tensors[0], rows[0].tolist()):
        np.testing.assert_array_equal(found.same(one, tensors), found.same(rows[0], rows))
    with pytest.raises(BadInput, match="second has 5 columns"):
        found.same(rows, rows[:, :5])
    with pytest.raises(BadInput, match="first: 1 of 1 rows contain NaN"):
        found.same(np.full(6, np.nan), rows)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(DISTANCES), st.sampled_from(["equal_error", "balanced"]))
def test_the_order_of_rows_changes_no_bit(seed: int, distance: str, rule: str) -> None:
    rows, labels = drawn(seed)
    order = np.random.default_rng(seed).permutation(len(rows))
    one, other = (same_or_not(rows[o], labels[o], distance=distance, rule=rule) for o in (slice(None), order))
    assert (one.value, one.interval, one.signature) == (other.value, other.interval, other.signature)
    assert one.validation.false_match.errors == other.validation.false_match.errors


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(DISTANCES))
def test_blocks_change_no_count_and_a_plain_loop_counts_the_same(seed: int, distance: str) -> None:
    rows, labels = drawn(seed, classes=20)
    pairs = pair_set(np.round(rows), labels, distance=distance)  # whole numbers: many ties
    edges = np.array([-1e9, -3.0, -1.0, 0.25, 0.5])
    whole = (*count_by_class(pairs, edges), histogram(pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_ROWS", 7)
        patch.setattr(pairs_module, "_COLUMNS", 11)
        for in_blocks, at_once in zip((*count_by_class(pairs, edges), histogram(pairs)), whole, strict=True):
            np.testing.assert_array_equal(in_blocks, at_once)
    same, other = np.zeros((2, 20), dtype=int)
    for i, j in combinations(labels, 2):
        if i == j:
            same[i] += 1
        else:
            other[[i, j]] += 1
    for all_counts, at_edges, counted in zip(pairs.by_class, whole, (same, other), strict=False):
        np.testing.assert_array_equal(all_counts, counted)
        np.testing.assert_array_equal(at_edges[0], counted)


@pytest.mark.parametrize("classes", [5, 30])
def test_rates_hold_the_truth_at_least_as_often_as_they_say(classes: int) -> None:
    found = same_or_not(*drawn(0, classes=200), ci=None)
    large = found.rates(*renamed(drawn(10**6, classes=2000)), ci=None)
    truth = (large.false_match.value, large.false_non_match.value)
    repeats, level, held = 100, 0.9, np.zeros(2)
    for seed in range(repeats):
        rates = found.rates(*renamed(drawn(seed + 1, classes=classes)), ci=level)
        held += [
            rate.low <= true <= rate.high
            for rate, true in zip((rates.false_match, rates.false_non_match), truth, strict=True)
        ]
    assert (held / repeats > level - 2 * math.sqrt(level * (1 - level) / repeats)).all()


@functools.cache
def many_would_choose(rule: str) -> float:
    """The threshold of a thousand classes; `rule` as JSON."""
    return same_or_not(*drawn(10**6, classes=1000), rule=json.loads(rule), ci=None).value


@pytest.mark.parametrize("rule", ["equal_error", "balanced", {"false_match": 0.02}], ids=str)
@pytest.mark.parametrize("classes", [5, 40])
def test_the_interval_of_a_threshold_holds_what_many_classes_would_choose(
    rule: str | dict[str, float], classes: int
) -> None:
    truth = many_would_choose(json.dumps(rule))
    repeats, level = 60, 0.9
    found = [same_or_not(*drawn(seed, classes=classes), rule=rule, ci=level).interval for seed in range(repeats)]
    held = np.mean([low <= truth <= high for low, high in found])
    assert held > level - 2 * math.sqrt(level * (1 - level) / repeats)
    few, many = (same_or_not(*drawn(7, classes=count), rule=rule) for count in (20, 400))
    assert many.interval[0] < many.value < many.interval[1]
    assert many.interval[1] - many.interval[0] < 0.5 * (few.interval[1] - few.interval[0])


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("rule", ["equal_error", "balanced", {"false_match": 0.05}], ids=str)
def test_an_interval_is_never_a_point_and_there_is_none_below_five_classes(
    distance: str, rule: str | dict[str, float]
) -> None:
    perfect = np.repeat(np.eye(8), 3, axis=0), np.repeat(np.arange(8), 3)
    for rows, labels in (drawn(3), perfect):
        low, high = same_or_not(rows, labels, rule=rule, distance=distance).interval
        assert low < high
    assert all(map(math.isnan, same_or_not(*drawn(3, classes=4), rule=rule, distance=distance).interval))


def test_only_the_first_columns_count_when_asked() -> None:
    rows, labels = drawn(0)
    cut, first = same_or_not(rows, labels, dim=3), same_or_not(rows[:, :3], labels)
    assert (cut.value, cut.interval, cut.dim) == (first.value, first.interval, 3)
    other, names = renamed(drawn(1))
    assert cut.rates(other, names) == first.rates(other[:, :3], names)
    np.testing.assert_array_equal(cut.same(rows[0], rows), first.same(rows[0, :3], rows[:, :3]))


def test_a_gap_is_cut_in_the_middle_and_equal_rows_are_refused() -> None:
    angles = np.radians([0, 10, 90, 100])  # cosines of one class 0.985, of two classes at most 0.174
    found = same_or_not(np.stack([np.cos(angles), np.sin(angles)], axis=1), [0, 0, 1, 1])
    assert found.value == pytest.approx((math.cos(math.radians(10)) + math.cos(math.radians(80))) / 2, abs=1e-5)
    for distance in DISTANCES:
        found = same_or_not(np.ones((6, 3)), [0, 0, 1, 1, 2, 2], distance=distance, rule={"false_match": 0.1})
        assert (found.validation.false_match.value, found.validation.false_non_match.value) == (0.0, 1.0)
        assert not found.same(np.ones(3), np.ones(3)).any()


def test_far_rows_do_not_coarsen_a_euclidean_threshold() -> None:
    rows, labels = drawn(0, classes=60)
    plain = same_or_not(rows, labels, distance="euclidean", ci=None)
    far = np.concatenate([rows, [[1e6] * 6]])
    found = same_or_not(far, np.append(labels, 999), distance="euclidean", ci=None)
    assert found.value == pytest.approx(plain.value, rel=0.01)


def renamed(sample: tuple[Array, Array]) -> tuple[Array, Array]:
    """The same rows with labels that chose no threshold."""
    return sample[0], sample[1] + 10**6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"labels": [0, 0, 0, 0]}, "validation embeddings are all of one class"),
        ({"labels": [0, 1, 2, 3]}, "each of the 4 classes has one image"),
        ({"labels": [0, 0, 1]}, "4 validation embeddings but 3 validation labels"),
        ({"rows": np.diag([1, 2, np.nan, 3])}, "validation embeddings: 1 of 4 rows .* the first is row 2"),
        ({"rule": "equal"}, "equal_error"),
        ({"rule": {"false_mach": 0.1}}, "false_match"),
        ({"rule": "false_match"}, "0.01"),
        ({"rule": {"false_match": 2}}, "between 0 and 1"),
        ({"rule": {"balanced": 0.3}}, "use"),
        ({"rule": {}}, "There are"),
    ],
    ids=str,
)
def test_what_cannot_choose_is_refused(arguments: dict[str, Any], said: str) -> None:
    rows, labels = arguments.get("rows", np.eye(4)), arguments.get("labels", [0, 0, 1, 1])
    with pytest.raises((BadInput, UnknownName, BadSpecification), match=said):
        same_or_not(rows, labels, rule=arguments.get("rule", "equal_error"))


def test_classes_that_chose_are_not_tested() -> None:
    rows, labels = drawn(0)
    found = same_or_not(rows, labels)
    with pytest.raises(BadInput, match=r"2 of 12 test classes were also used to choose the threshold \(10, 11\)"):
        found.rates(rows, labels + 10)
    with pytest.raises(BadInput, match="both be numbers or both be text"):
        found.rates(rows, labels.astype(str))
    with pytest.raises(BadInput, match=r"test embeddings has 5 columns, but the threshold was chosen on .* 6"):
        found.rates(rows[:, :5], labels + 100)
    with pytest.raises(BadInput, match="test embeddings are all of one class"):
        found.rates(rows, np.full(len(rows), 99))


def even(seed: int, *, classes: int = 12, each: int = 4, noise: float = 0.6) -> tuple[Array, Array]:
    """Classes of one size."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    return random.normal(size=(classes, 6))[labels] + noise * random.normal(size=(len(labels), 6)), labels


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("with_gallery", [False, True], ids=["alone", "gallery"])
def test_the_rate_is_that_of_a_plain_loop(distance: str, with_gallery: bool) -> None:
    rows, labels = even(0)
    gallery, others = even(1, classes=9) if with_gallery else (rows, labels)
    threshold = {"cosine": 0.8, "dot": 5.0, "euclidean": 1.6, "hamming": 0}[distance]
    searched = {"gallery": gallery, "gallery_labels": others} if with_gallery else {}
    found = unknowns(rows, labels, threshold=threshold, distance=distance, **searched)
    least = threshold if distance in ("cosine", "dot") else -threshold
    expected = sum(
        any(nearness(row, other, distance) >= least for other in gallery[others != label])
        for row, label in zip(rows, labels, strict=True)
    )
    assert 0 < expected < len(rows)
    assert (found.matched, found.value) == (expected, expected / len(rows))
    assert (found.images, found.classes, found.gallery) == (48, 12, len(gallery))
    assert found.low < found.value < found.high


def test_an_image_of_its_own_class_is_no_match_and_the_order_changes_nothing() -> None:
    rows, labels = np.repeat(np.eye(6), 3, axis=0), np.repeat(np.arange(6), 3)
    found = unknowns(rows, labels, threshold=0.5)
    assert (found.matched, found.low) == (0, 0.0)
    assert 0.3 < found.high < 0.6  # 6 classes without an error cannot rule out more
    rows, labels = even(3)
    order = np.random.default_rng(0).permutation(len(rows))
    assert unknowns(rows, labels, threshold=0.8) == unknowns(rows[order], labels[order], threshold=0.8)


def test_the_interval_contains_the_expected_rate_as_often_as_it_says() -> None:
    found = [unknowns(*even(seed, classes=30, each=3, noise=0.4), threshold=0.9) for seed in range(120)]
    truth = np.mean([one.value for one in found])
    inside = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.1 < truth < 0.6
    assert inside > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 120)


def test_a_threshold_counts_what_its_own_decisions_match() -> None:
    chosen = same_or_not(*even(5), ci=None)
    rows, labels = even(6)
    found = chosen.unknowns(rows, labels + 100, ci=None)
    wrong = [bool((chosen.same(row, rows[labels != label])).any()) for row, label in zip(rows, labels, strict=True)]
    assert found.matched == sum(wrong)
    assert math.isnan(found.low)
    with pytest.raises(BadInput, match="were also used to choose the threshold"):
        chosen.unknowns(rows, labels)
    with pytest.raises(BadInput, match="has 5 columns"):
        chosen.unknowns(rows[:, :5], labels + 100)


def test_few_classes_have_no_interval_and_one_class_no_rate() -> None:
    rows, labels = even(0, classes=4)
    assert math.isnan(unknowns(rows, labels, threshold=0.5).low)
    with pytest.raises(BadInput, match="Two classes are needed"):
        unknowns(rows, labels * 0, threshold=0.5)
