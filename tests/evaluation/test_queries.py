"""Queries: a sample of them and what it says about all; a warning if they find themselves in the gallery."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from levelfield.errors import BadSpecification
from levelfield.evaluation import evaluate
from levelfield.evaluation.queries import QueriesInGallery, for_all_queries
from levelfield.evaluation.result import Sample

RANDOM = np.random.default_rng(1)
LABELS = np.append(RANDOM.integers(0, 60, 799), 1000)
ROWS = (RANDOM.normal(size=(800, 8)) + RANDOM.normal(size=(1001, 8))[LABELS]).astype(np.float32)
FEW, CLASSES = RANDOM.normal(size=(80, 6)).astype(np.float32), np.arange(80) % 8
METRICS = ["recall@1", "map@r", "mrr"]


def test_a_sample_has_the_values_of_its_queries() -> None:
    whole, found = (evaluate(ROWS, LABELS, metrics=METRICS, ci=0.95, sample=size) for size in (None, 100))
    rows = found.sample.rows
    assert len(np.unique(rows)) == 100
    for name in METRICS:
        assert np.array_equal(found.per_query[name], whole.per_query[name][rows])
    assert (found.n_queries, found.sample.of) == (100, 800)
    assert "|q:100|g:800|sample:100of800-seed0|" in str(found.signature("mrr"))
    assert found.signature("mrr").definition != whole.signature("mrr").definition
    other = evaluate(ROWS, LABELS, metrics=METRICS, sample=100, seed=1).sample
    assert not np.array_equal(other.rows, rows)
    assert evaluate(ROWS, LABELS, metrics=METRICS, sample=800).sample is None
    given = {"gallery": ROWS, "gallery_labels": LABELS, "query_ids": np.arange(200), "metrics": METRICS}
    whole, found = (evaluate(ROWS[:200], LABELS[:200], sample=size, **given) for size in (None, 50))
    assert np.array_equal(found.per_query["mrr"], whole.per_query["mrr"][found.sample.rows])  # ids are kept


def test_intervals_hold_the_score_of_all_queries_about_as_often_as_they_say() -> None:
    values, inside = evaluate(ROWS, LABELS, metrics=METRICS).per_query, dict.fromkeys(METRICS, 0)
    for trial in range(400):
        rows = np.random.default_rng(trial).choice(800, 150, replace=False)
        some = {name: values[name][rows] for name in METRICS}
        found = for_all_queries(Sample(rows, 800, trial), some, np.ones(150, bool), 800, level=0.9).intervals
        for name in METRICS:
            inside[name] += found[name].low <= values[name].mean() <= found[name].high
    assert all(0.85 < count / 400 < 0.95 for count in inside.values()), inside


def test_a_perfect_sample_leaves_room_for_the_others() -> None:
    rows, kept = np.arange(50), np.ones(50, dtype=bool)
    perfect = {"recall@1": np.ones(50)}
    few, most = (
        for_all_queries(Sample(rows, of, 0), perfect, kept, of, level=0.95).intervals["recall@1"] for of in (1000, 51)
    )
    assert few.high == most.high == 1
    assert 0.9 < few.low < 0.95 < most.low < 1
    one = for_all_queries(Sample(rows, 9, 0), perfect, np.arange(50) < 1, 9, level=0.95).intervals["recall@1"]
    assert np.isnan(one.low)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample": 0}, "'sample' is 0; it must be at least 1"),
        ({"sample": True}, "'sample' is True; expected a finite number"),
        ({"sample": 10, "average": "class"}, "misses classes"),
        ({"sample": 10, "metrics": ["nmi"]}, "'nmi' describes all embeddings"),
        ({"sample": 10, "metrics": ["uniformity"]}, "cannot be measured on a sample"),
    ],
)
def test_what_a_sample_cannot_say_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadSpecification, match=message):
        evaluate(ROWS, LABELS, **given)  # type: ignore[arg-type]


def test_the_same_rows_as_queries_and_gallery_are_warned_of() -> None:
    with pytest.warns(QueriesInGallery, match="All 80 queries are also rows of the gallery") as warned:
        found = evaluate(FEW, CLASSES, gallery=FEW.copy(), gallery_labels=CLASSES, metrics=["recall@1"])
    assert found["recall@1"] == 1
    assert warned[0].filename == __file__
    with pytest.warns(QueriesInGallery, match="All 30 queries"):
        evaluate(FEW[50:], CLASSES[50:], gallery=FEW[::-1], gallery_labels=CLASSES[::-1], metrics=["recall@1"])


@pytest.mark.parametrize("which", ["without a gallery", "left out by id", "others", "one copy", "all but one"])
def test_what_is_right_is_not_warned_of(which: str) -> None:
    more = {
        "without a gallery": {},
        "left out by id": {"gallery": FEW, "gallery_labels": CLASSES, "query_ids": np.arange(80)},
        "others": {"gallery": FEW + 1, "gallery_labels": CLASSES},
        "one copy": {"gallery": np.concatenate((FEW[:1], FEW + 1)), "gallery_labels": np.append(0, CLASSES)},
        "all but one": {"gallery": np.delete(FEW, 17, axis=0), "gallery_labels": np.delete(CLASSES, 17)},
    }[which]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(FEW, CLASSES, metrics=["recall@1"], **more)
