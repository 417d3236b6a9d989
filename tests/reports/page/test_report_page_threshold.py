"""The error curves of "same class", and the pairs beside the threshold."""

from __future__ import annotations

import numpy as np
import pytest
from looked_at import embeddings
from test_report_page_search import LABELS, images, searched

from levelfield.evaluation import same_or_not
from levelfield.reports.page.content import Threshold
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.sections.same_or_not import TEST, VALIDATION, threshold_of

MANY = np.repeat(np.arange(20), 5)


def made_of(rows: np.ndarray, own: ImageSet, chosen: float | None = None) -> Threshold:
    made = threshold_of(searched(rows, own), rows, own, chosen)
    assert made is not None
    return made


def test_the_curves_are_the_rates_of_the_library_at_the_same_thresholds() -> None:
    rows, own = embeddings(MANY, noise=0.9), images(MANY)
    made = made_of(rows, own)
    assert made.source == TEST
    assert made.intervals is not None
    theirs = same_or_not(rows[:40], MANY[:40], ci=None)  # any threshold; its rates on other classes
    others = images(MANY[40:] - 8)
    curve = made_of(rows[40:], others, theirs.value)
    assert curve.source == VALIDATION
    rates = theirs.rates(rows[40:], MANY[40:])
    at = (
        np.interp(theirs.value, curve.grid, curve.false_accept),
        np.interp(theirs.value, curve.grid, curve.false_reject),
    )
    assert at[0] == pytest.approx(rates.false_match.value, abs=0.02)
    assert at[1] == pytest.approx(rates.false_non_match.value, abs=0.02)
    assert curve.intervals is not None
    low, high = curve.intervals.false_accept[int(np.searchsorted(curve.grid, theirs.value))]
    assert low == pytest.approx(rates.false_match.low, abs=0.03)
    assert high == pytest.approx(rates.false_match.high, abs=0.03)


def test_both_error_rates_are_equal_at_the_chosen_threshold() -> None:
    rows, own = embeddings(MANY, noise=0.9), images(MANY)
    made = made_of(rows, own)
    accept, reject = (np.interp(made.value, made.grid, rates) for rates in (made.false_accept, made.false_reject))
    assert accept == pytest.approx(reject, abs=0.01)
    assert made.false_accept == sorted(made.false_accept, reverse=True)
    assert made.false_reject == sorted(made.false_reject)


def test_pairs_are_on_their_side_and_of_both_kinds() -> None:
    rows, own = embeddings(MANY, noise=0.9), images(MANY)
    made = made_of(rows, own)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for pairs, above in ((made.above, True), (made.below, False)):
        assert {MANY[i] == MANY[j] for i, j, _ in pairs} == {True, False}
        assert len({frozenset((i, j)) for i, j, _ in pairs}) == len(pairs)
        for i, j, similarity in pairs:
            assert i != j
            assert similarity == pytest.approx(float(unit[i] @ unit[j]), abs=1e-4)
            assert (similarity >= made.value - 1e-4) if above else (similarity <= made.value + 1e-4)


def test_roles_have_curves_without_intervals() -> None:
    own = images(asked=np.arange(len(LABELS)) % 2 == 0)
    rows = embeddings(LABELS)
    made = made_of(rows, own)
    assert made.intervals is None


@pytest.mark.parametrize("labels", [np.zeros(5, int), np.arange(5)], ids=["one class", "one image each"])
def test_without_pairs_of_both_kinds_there_is_no_threshold(labels: np.ndarray) -> None:
    rows, own = embeddings(labels), images(labels)
    assert threshold_of(searched(rows, own), rows, own, None) is None
