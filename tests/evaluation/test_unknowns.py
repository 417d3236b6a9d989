"""The rate of matched unknowns: against a plain loop, its interval against simulated classes, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.evaluation import same_or_not, unknowns
from levelfield.evaluation.inputs import Array

DISTANCES = ["cosine", "euclidean", "dot", "hamming"]


def drawn(seed: int, *, classes: int = 12, each: int = 4, dim: int = 6, noise: float = 0.6) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    return random.normal(size=(classes, dim))[labels] + noise * random.normal(size=(len(labels), dim)), labels


def passes(first: Array, second: Array, distance: str, threshold: float) -> bool:
    if distance == "cosine":
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second)) >= threshold
    if distance == "dot":
        return float(first @ second) >= threshold
    away = np.sum((first > 0) != (second > 0)) if distance == "hamming" else np.linalg.norm(first - second)
    return float(away) <= threshold


def slowly(rows: Array, labels: Array, gallery: Array, others: Array, distance: str, threshold: float) -> int:
    """Images that pass the threshold with any image of another class."""
    matched = 0
    for row, label in zip(rows, labels, strict=True):
        matched += any(
            passes(row, other, distance, threshold)
            for other, name in zip(gallery, others, strict=True)
            if name != label
        )
    return matched


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("with_gallery", [False, True], ids=["alone", "gallery"])
def test_the_rate_is_that_of_a_plain_loop(distance: str, with_gallery: bool) -> None:
    rows, labels = drawn(0)
    gallery, others = drawn(1, classes=9) if with_gallery else (rows, labels)
    threshold = {"cosine": 0.8, "dot": 5.0, "euclidean": 1.6, "hamming": 0}[distance]
    searched = {"gallery": gallery, "gallery_labels": others} if with_gallery else {}
    found = unknowns(rows, labels, threshold=threshold, distance=distance, **searched)
    expected = slowly(rows, labels, gallery, others, distance, threshold)
    assert 0 < expected < len(rows)
    assert (found.matched, found.value) == (expected, expected / len(rows))
    assert (found.images, found.classes, found.gallery) == (48, 12, len(gallery))
    assert found.low < found.value < found.high


def test_an_image_of_its_own_class_is_no_match_and_the_order_changes_nothing() -> None:
    rows, labels = np.repeat(np.eye(6), 3, axis=0), np.repeat(np.arange(6), 3)
    found = unknowns(rows, labels, threshold=0.5)
    assert (found.matched, found.low) == (0, 0.0)
    assert 0.3 < found.high < 0.6  # 6 classes without an error cannot rule out more
    rows, labels = drawn(3)
    order = np.random.default_rng(0).permutation(len(rows))
    assert unknowns(rows, labels, threshold=0.8) == unknowns(rows[order], labels[order], threshold=0.8)


def test_the_interval_contains_the_expected_rate_as_often_as_it_says() -> None:
    found = [unknowns(*drawn(seed, classes=30, each=3, noise=0.4), threshold=0.9) for seed in range(120)]
    truth = np.mean([one.value for one in found])
    inside = np.mean([one.low <= truth <= one.high for one in found])
    assert 0.1 < truth < 0.6
    assert inside > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 120)


def test_a_threshold_counts_what_its_own_decisions_match() -> None:
    chosen = same_or_not(*drawn(5), ci=None)
    rows, labels = drawn(6)
    found = chosen.unknowns(rows, labels + 100, ci=None)
    wrong = [bool((chosen.same(row, rows[labels != label])).any()) for row, label in zip(rows, labels, strict=True)]
    assert found.matched == sum(wrong)
    assert math.isnan(found.low)
    with pytest.raises(BadInput, match="were also used to choose the threshold"):
        chosen.unknowns(rows, labels)
    with pytest.raises(BadInput, match="has 5 columns"):
        chosen.unknowns(rows[:, :5], labels + 100)


def test_few_classes_have_no_interval_and_one_class_no_rate() -> None:
    rows, labels = drawn(0, classes=4)
    assert math.isnan(unknowns(rows, labels, threshold=0.5).low)
    with pytest.raises(BadInput, match="Two classes are needed"):
        unknowns(rows, labels * 0, threshold=0.5)
