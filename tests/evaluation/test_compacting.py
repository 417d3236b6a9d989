"""Compact embeddings: each form against a slow loop of its definition, sizes, and what may never change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from levelfield.errors import BadInput
from levelfield.evaluation import compact, evaluate, paired_differences

DIM = 64
LABELS = np.repeat(np.arange(12), 6)


def rows_of(seed: int, dim: int = DIM) -> np.ndarray:
    """Twelve classes of six correlated rows around a common offset."""
    random = np.random.default_rng(seed)
    mixed = np.random.default_rng(99).normal(size=(dim, dim)) * np.linspace(1.5, 0.1, dim)
    rows = (random.normal(size=(12, dim))[LABELS] + random.normal(size=(72, dim))) @ mixed.T
    return (rows + 0.5).astype(np.float32)


TRAIN, TEST = rows_of(0), rows_of(1)


def unit(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_case_by_hand() -> None:
    train = np.array([[1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [0.0, 0.5]])
    forms = compact(train, np.array([[0.5, 0.25], [-2.0, -0.25]]), distance="dot")
    # largest absolute values 1 and 1; means 0 and -0.125
    assert forms["int8"].stored(np.array([[0.5, 0.25], [-2.0, -0.25]])).tolist() == [[64, 32], [-127, -32]]
    np.testing.assert_allclose(forms["int8"].rows, [[64 / 127, 32 / 127], [-1.0, -32 / 127]], rtol=1e-6)
    assert forms["bits"].rows.tolist() == [[1, 1], [-1, -1]]
    assert forms["bits"].stored([[0.5, 0.25], [-2.0, -0.25], [0.0, 0.0]]).tolist() == [[0b11000000], [0], [0b01000000]]
    # the columns are uncorrelated, so the components are the columns; deviations from the mean: 0.125, -0.875, ...
    deviation = math.sqrt(2 / 3), math.sqrt((0.125**2 * 2 + 0.875**2 + 0.625**2) / 3)
    expected = [[0.5 / deviation[0], 0.375 / deviation[1]], [-2 / deviation[0], -0.125 / deviation[1]]]
    np.testing.assert_allclose(forms["whitened 2"].rows, expected, rtol=1e-6)


def test_sizes_are_those_of_the_stored_arrays() -> None:
    forms = compact(TRAIN, TEST)
    sizes = {"float32": 4 * DIM, "float16": 2 * DIM, "int8": DIM, "bits": DIM // 8}
    sizes |= {f"first {dim}": 4 * dim for dim in (32, 16)} | {f"whitened {dim}": 4 * dim for dim in (64, 32, 16)}
    assert {name: one.bytes for name, one in forms.items()} == sizes
    for dim in (1, 7, 9, 20, DIM):
        for name, one in compact(TRAIN[:, :dim], TEST[:, :dim]).items():
            assert one.stored(TEST[:, :dim]).nbytes == len(TEST) * one.bytes
            assert one.rows.shape == (len(TEST), one.dim)
            np.testing.assert_array_equal(one.of(TEST[:, :dim]), one.rows, err_msg=name)
    assert list(compact(None, TEST)) == ["float32", "float16", "first 32", "first 16"]


def test_whitening_equals_the_eigenvectors_of_the_covariance_of_training_rows() -> None:
    train, test = unit(TRAIN), unit(TEST)
    mean = sum(train) / len(train)
    covariance = sum(np.outer(row - mean, row - mean) for row in train) / (len(train) - 1)
    values, vectors = np.linalg.eigh(covariance)
    found = compact(TRAIN, TEST)["whitened 16"].rows
    for k in range(16):
        expected = (test - mean) @ vectors[:, -1 - k] / math.sqrt(values[-1 - k])
        sign = np.sign(expected @ found[:, k])
        np.testing.assert_allclose(found[:, k] * sign, expected, rtol=1e-3, atol=1e-4)


def test_float16_is_within_its_rounding_and_limited_and_all_dimensions_equal_float32() -> None:
    forms = compact(None, TEST, dims=[DIM])
    np.testing.assert_array_equal(forms[f"first {DIM}"].rows, forms["float32"].rows)
    # half of the last of 11 bits, for numbers up to 1
    np.testing.assert_allclose(forms["float16"].rows, forms["float32"].rows, rtol=2**-11, atol=2**-24)
    forms = compact(None, np.array([[1e6, -1e6], [0.0, 0.0]]), distance="euclidean")
    assert forms["float16"].rows.tolist() == [[65504, -65504], [0, 0]]


@pytest.mark.parametrize("name", ["int8", "bits", "whitened 64", "whitened 16"])
def test_nothing_is_fitted_on_test_rows(name: str) -> None:
    alone, among = compact(TRAIN, TEST[:1])[name].rows, compact(TRAIN, np.concatenate([TEST, 50 * TEST + 3]))[name].rows
    np.testing.assert_allclose(alone[0], among[0], rtol=1e-5, atol=1e-6)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: one.rows for name, one in compact(TRAIN, TEST).items()}
    monkeypatch.setattr("levelfield.evaluation.compacting._BLOCK", 7)
    for name, one in compact(TRAIN, TEST).items():
        np.testing.assert_allclose(one.rows, whole[name], rtol=1e-4, atol=1e-4)


def test_training_rows_of_a_lower_rank_determine_fewer_components() -> None:
    names = list(compact(TRAIN[:20], TEST))
    assert "whitened 16" in names
    assert "whitened 32" not in names
    flat = TRAIN.copy()
    flat[:, 30:] = 0
    assert [name for name in compact(flat, TEST, dims=[30, 31]) if name.startswith("whitened")] == ["whitened 30"]
    for train in ([[1.0, 0.0]] * 3, [[1.0, 2.0]]):  # constant: no whitening, and an empty dimension stays empty
        forms = compact(train, [[1.0, 1.0], [1.0, -1.0]])
        assert list(forms) == ["float32", "float16", "int8", "bits"]
    assert compact([[1.0, 0.0]], [[1.0, 1.0], [1.0, -1.0]])["int8"].rows[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dims": [8, 65]}, "dim=65, but test_rows has 64 columns; dim must be 1 to 64"),
        ({"dims": [0]}, "dim=0, but test_rows has 64 columns"),
        ({"train_rows": TRAIN[:, :5]}, "train_rows has 5 columns but test_rows has 64"),
        ({"train_rows": TRAIN * np.nan}, "train_rows: 72 of 72 rows contain NaN"),
        ({"test_rows": TEST[:0]}, "test_rows is empty"),
        ({"distance": "hamming"}, "compares bits only"),
    ],
)
def test_bad_input_is_refused(arguments, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        compact(**{"train_rows": TRAIN, "test_rows": TEST, **arguments})
    with pytest.raises(BadInput, match="rows has 5 columns; expected 64"):
        compact(None, TEST)["float32"].of(TEST[:, :5])


def test_a_paired_difference_equals_students_t_over_classes() -> None:
    whole, less = (evaluate(TEST, LABELS, metrics=["map@r"], dim=dim) for dim in (DIM, 16))
    found = paired_differences(less, whole, level=0.9)["map@r"]
    values = less.per_class("map@r").means - whole.per_class("map@r").means
    half = 1.7958848187 * values.std(ddof=1) / math.sqrt(12)  # t of 11 degrees of freedom, 95th percentile
    assert (found.mean, found.level) == (pytest.approx(values.mean()), 0.9)
    assert (found.low, found.high) == (pytest.approx(values.mean() - half), pytest.approx(values.mean() + half))
    back = paired_differences(whole, less, level=0.9)["map@r"]
    assert (back.low, back.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


def test_a_paired_difference_follows_the_average_of_both() -> None:
    few = np.arange(72)[(np.arange(72) % 6 < 3) | (LABELS < 4)]  # classes of 6 and of 3 images
    by = {
        average: [evaluate(TEST[few], LABELS[few], metrics=["map@r"], dim=dim, average=average) for dim in (DIM, 16)]
        for average in ("query", "class")
    }
    for average, (whole, less) in by.items():
        found = paired_differences(less, whole)["map@r"]
        assert found.mean == pytest.approx(less["map@r"] - whole["map@r"]), average
        assert (found.low + found.high) / 2 == pytest.approx(found.mean)
    with pytest.raises(BadInput, match="average 'map@r' over queries and over classes"):
        paired_differences(by["query"][0], by["class"][0])


def test_no_interval_without_a_difference_or_with_few_classes() -> None:
    whole = evaluate(TEST, LABELS, metrics=["recall@1"])
    same = paired_differences(whole, whole)["recall@1"]
    assert same.mean == 0
    assert math.isnan(same.low)
    few = [evaluate(TEST[:24], LABELS[:24], metrics=["recall@1"], dim=dim) for dim in (DIM, 1)]
    assert math.isnan(paired_differences(*few)["recall@1"].high)
    with pytest.raises(BadInput, match="different queries"):
        paired_differences(whole, few[0])
