"""A warning if queries find themselves in the gallery, and only then."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levelfield import evaluate
from levelfield.evaluation.queries import QueriesInGallery

ROWS = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
LABELS = np.arange(80) % 8


def test_the_same_rows_as_queries_and_gallery_are_warned_of() -> None:
    with pytest.warns(QueriesInGallery, match="All 80 queries are also rows of the gallery"):
        found = evaluate(ROWS, LABELS, gallery=ROWS.copy(), gallery_labels=LABELS, metrics=["recall@1"])
    assert found["recall@1"] == 1


def test_a_gallery_that_has_more_is_warned_of_too_in_any_order() -> None:
    with pytest.warns(QueriesInGallery, match="All 30 queries"):
        evaluate(ROWS[50:], LABELS[50:], gallery=ROWS[::-1], gallery_labels=LABELS[::-1], metrics=["recall@1"])


@pytest.mark.parametrize("which", ["without a gallery", "left out by id", "others", "one copy", "all but one"])
def test_what_is_right_is_not_warned_of(which: str) -> None:
    more = {
        "without a gallery": {},
        "left out by id": {"gallery": ROWS, "gallery_labels": LABELS, "query_ids": np.arange(80)},
        "others": {"gallery": ROWS + 1, "gallery_labels": LABELS},
        "one copy": {"gallery": np.concatenate((ROWS[:1], ROWS + 1)), "gallery_labels": np.append(0, LABELS)},
        "all but one": {"gallery": np.delete(ROWS, 17, axis=0), "gallery_labels": np.delete(LABELS, 17)},
    }[which]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(ROWS, LABELS, metrics=["recall@1"], **more)
