from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.evaluation import evaluate

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
LABELS = np.array([0, 0, 1, 1, 2, 2])


def broken(value: float) -> np.ndarray:
    rows = ROWS.copy()
    rows[[3, 5], 1] = value
    return rows


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"embeddings": broken(np.nan)}, "embeddings: 2 of 6 rows contain NaN or infinity; the first is row 3"),
        ({"embeddings": broken(-np.inf)}, "embeddings: 2 of 6 rows"),
        ({"gallery": broken(np.inf), "gallery_labels": LABELS}, "gallery: 2 of 6 rows .* row 3"),
        ({"labels": LABELS[:4]}, "6 embeddings but 4 labels: .* first unmatched row is 4"),
        ({"labels": LABELS[:, None]}, r"labels has shape \(6, 1\)"),
        ({"labels": LABELS + 0.5}, "integers or text"),
        ({"embeddings": ROWS[0]}, r"embeddings has shape \(2,\)"),
        ({"embeddings": ROWS[:0], "labels": LABELS[:0]}, "embeddings is empty"),
        ({"embeddings": ROWS[:1], "labels": LABELS[:1]}, "at least 2"),
        ({"gallery": ROWS}, "without gallery_labels"),
        ({"gallery": ROWS[:, :1], "gallery_labels": LABELS}, "2 columns but gallery has 1"),
        ({"gallery": ROWS[:1], "gallery_labels": LABELS[:1]}, "gallery has 1 row"),
        ({"gallery": ROWS, "gallery_labels": LABELS.astype(str)}, "both be numbers or both be text"),
        ({"gallery": ROWS, "gallery_labels": LABELS, "query_ids": [0, 1, 2, 3, 4, 6]}, "query_ids: 6 at row 5"),
        ({"gallery": ROWS, "gallery_labels": LABELS, "query_ids": [0, 1]}, "one integer per query"),
        ({"query_ids": np.arange(6)}, "need a gallery"),
        ({"dim": 3}, "dim=3, but embeddings has 2 columns"),
        ({"embeddings": [[1.0, 2.0], [3.0]]}, "Cannot convert embeddings to an array"),
        ({"embeddings": torch.from_numpy(ROWS).to_sparse()}, "Cannot convert embeddings to an array"),
        ({"labels": ["a", "a", None, "b", float("nan"), "b"]}, "labels: 2 of 6 rows have no label; the first is row 2"),
    ],
)
def test_bad_arrays_are_refused_by_name_and_row(arguments, text):
    with pytest.raises(BadInput, match=text):
        evaluate(**{"embeddings": ROWS, "labels": LABELS, **arguments})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"metrics": ["recal@1"]}, "Did you mean 'recall@1'"),
        ({"metrics": ["recall@x"]}, "Unknown metric 'recall@x'"),
        ({"metrics": ["map_at_r"]}, "Did you mean 'map@r'"),
        ({"metrics": ["nmi[geometrc]"]}, "Did you mean 'geometric'"),
        ({"metrics": ["recall@0"]}, "the number of neighbours must be 1 to"),
        ({"metrics": [f"map@{10**20}"]}, "the number of neighbours must be 1 to"),
        ({"metrics": ["mrr[best]"]}, "has only one form"),
        ({"metrics": [3]}, "metrics contains 3"),
        ({"distance": "cosin"}, "'distance' is 'cosin'. Choose one of: 'cosine', 'euclidean', 'dot', 'hamming'"),
        ({"ties": "expect"}, "Choose one of: 'expected', 'pessimistic', 'optimistic'"),
        ({"lone": "misses"}, "Choose one of: 'exclude', 'miss'"),
        ({"average": "classes"}, "Choose one of: 'query', 'class'"),
        ({"starts": 0}, "'starts' is 0; it must be at least 1"),
        ({"dim": 1.5}, "'dim' is 1.5; expected an integer"),
    ],
)
def test_wrong_settings_are_refused_with_the_valid_ones(arguments, text):
    with pytest.raises((BadSpecification, UnknownName), match=text):
        evaluate(ROWS, LABELS, **arguments)


def test_large_signed_and_unsigned_labels_meet_without_merging():
    beyond_float32 = np.array([2**24, 2**24, 2**24 + 1, 2**24 + 1, 2**60, 2**60])
    assert dict(evaluate(ROWS, beyond_float32)) == dict(evaluate(ROWS, LABELS))
    labels = LABELS + 2**60  # int64 and uint64 have float64 in common, where these are one number
    mixed = evaluate(ROWS, labels, gallery=ROWS, gallery_labels=labels.astype(np.uint64), query_ids=np.arange(6))
    assert dict(mixed) == dict(evaluate(ROWS, labels))
    assert dict(evaluate(ROWS, LABELS.astype(np.uint64) + 2**63)) == dict(evaluate(ROWS, LABELS))


@pytest.mark.parametrize("kind", [">f8", np.longdouble])
def test_long_numbers_keep_their_digits(kind):
    rows = np.random.default_rng(0).normal(size=(60, 4)) * 1e-3 + 1e4  # in float32 most of them are equal
    labels = np.arange(60) % 6
    assert dict(evaluate(rows.astype(kind), labels, distance="euclidean")) == dict(
        evaluate(rows, labels, distance="euclidean")
    )


def test_text_of_any_kind_is_a_label():
    names = np.array(["a", "a", "b", "b", "c", "c"])
    wanted = dict(evaluate(ROWS, LABELS))
    for labels in (names, names.astype(object), names.astype(np.dtypes.StringDType())):
        assert dict(evaluate(ROWS, labels)) == wanted


def test_no_positives_at_all_is_no_error():
    result = evaluate(ROWS, np.arange(6), metrics=["recall@1", "map"])
    assert np.isnan(list(result.values())).all()
    assert result.n_lone == 6
    assert len(result.per_class("map").means) == 0
    others = {"gallery": ROWS, "gallery_labels": LABELS + 10}
    out, missed = (evaluate(ROWS, LABELS, **others, lone=lone) for lone in ("exclude", "miss"))
    assert np.isnan(list(out.values())).all()
    assert set(missed.values()) == {0.0}


def test_metrics_by_default_and_from_one_text():
    assert list(evaluate(ROWS, LABELS, k=(1, 10))) == ["recall@1", "recall@10", "r_precision", "map@r", "map", "mrr"]
    assert list(evaluate(ROWS, LABELS, metrics="recall, map@c[released]", k=3)) == ["recall@3", "map@c[released]"]


def test_a_figure_that_was_not_asked_for_is_named():
    result = evaluate(ROWS, LABELS, metrics=["recall@1", "nmi"])
    with pytest.raises(UnknownName, match="recall@1"):
        result["recall@2"]
    with pytest.raises(BadSpecification, match="no value per class"):
        result.per_class("nmi")
    assert "recall@2" not in result
