from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from levelfield.errors import BadInput, UnknownName
from levelfield.evaluation import class_spectra, class_spectrum, evaluate, spectral_decay, spectrum


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(3000, 12)) * np.logspace(0, -5, 12)


def divergence(values: np.ndarray, *, reverse: bool = False) -> float:
    """Straight from the definition, term by term."""
    share = values / values.sum()
    uniform = np.full(len(values), 1 / len(values))
    first, second = (share, uniform) if reverse else (uniform, share)
    return sum(p * math.log(p / q) for p, q in zip(first, second, strict=True))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (4, 9), (9, 9), (1025, 3)])
def test_there_are_as_many_values_as_the_smaller_side(shape):
    rows = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_allclose(spectrum(rows), np.linalg.svd(rows, compute_uv=False), rtol=1e-12)


def test_small_values_keep_their_digits():
    """The eigenvalues of the matrix of products would have none of the last one's left."""
    random = np.random.default_rng(2)
    left, right = (np.linalg.qr(random.normal(size=(size, 4)))[0] for size in (5000, 4))
    wanted = np.array([1.0, 1e-3, 1e-6, 1e-9])
    np.testing.assert_allclose(spectrum(left * wanted @ right.T), wanted, rtol=1e-6)


@pytest.mark.parametrize("drop", [0, 1, 9])
@pytest.mark.parametrize("direction", ["uniform-spectrum", "spectrum-uniform"])
def test_decay_is_the_divergence_of_what_is_left(rows, drop, direction):
    left = np.linalg.svd(rows, compute_uv=False)[drop:]
    wanted = divergence(left, reverse=direction == "spectrum-uniform")
    assert spectral_decay(rows, drop, direction) == pytest.approx(wanted, rel=1e-9)
    name = f"rho[drop={drop}{',reverse' if direction == 'spectrum-uniform' else ''}]"
    found = evaluate(rows, np.zeros(3000, dtype=int), metrics=[name], distance="dot")
    assert found[name] == spectral_decay(rows, drop, direction)


def test_evaluate_hands_over_unit_rows_under_cosine_and_bits_under_hamming(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.zeros(len(rows), dtype=int)
    assert evaluate(rows, labels, metrics=["rho"])["rho"] == pytest.approx(spectral_decay(unit), rel=1e-9)
    bits = evaluate(rows, labels, metrics=["rho"], distance="hamming")["rho"]
    assert bits == pytest.approx(spectral_decay((rows > 0).astype(float)), rel=1e-12)


def test_a_dead_direction_makes_it_infinite_and_the_reverse_finite():
    rows = np.random.default_rng(3).normal(size=(50, 6))
    rows[:, 4] = 0
    assert spectral_decay(rows) == math.inf
    assert spectral_decay(rows, direction="spectrum-uniform") < 1
    assert spectral_decay(rows.astype(np.float32)) == math.inf
    dependent = rows.copy()
    dependent[:, 4] = dependent[:, 0] + dependent[:, 1]  # dead only up to rounding
    assert spectral_decay(dependent) == math.inf
    assert spectral_decay(np.zeros((5, 3))) == math.inf
    assert math.isnan(spectral_decay(np.zeros((5, 3)), direction="spectrum-uniform"))
    weak = np.random.default_rng(4).normal(size=(400, 3)).astype(np.float32) * np.float32([1, 1, 1e-6])
    assert math.isfinite(spectral_decay(weak))


def test_class_spectra_are_those_of_each_class_with_zeros_behind():
    random = np.random.default_rng(5)
    rows, labels = random.normal(size=(60, 8)), np.repeat(["c", "a", "b"], [3, 17, 40])
    found = class_spectra(torch.from_numpy(rows), labels, length=5)
    for row, name in zip(found, "abc", strict=True):
        values = np.linalg.svd(rows[labels == name], compute_uv=False)[:5]
        np.testing.assert_allclose(row, np.pad(values, (0, 5 - len(values))), rtol=1e-12)
    np.testing.assert_allclose(class_spectrum(rows, labels, length=5), found.mean(axis=0), rtol=1e-12)
    assert class_spectrum(rows, labels).shape == (35,)


def test_order_and_names_change_no_bit(rows):
    random = np.random.default_rng(6)
    labels, order = random.integers(0, 9, len(rows)), random.permutation(len(rows))
    np.testing.assert_array_equal(spectrum(rows), spectrum(rows[order]))
    np.testing.assert_array_equal(class_spectrum(rows, labels, 4), class_spectrum(rows[order], 99 - labels[order], 4))


def test_what_makes_no_sense_is_refused(rows):
    with pytest.raises(BadInput, match="12 largest of 12 singular values"):
        spectral_decay(rows, drop_largest=12)
    with pytest.raises(UnknownName, match="Did you mean 'spectrum-uniform'"):
        spectral_decay(rows, direction="spectrum-unifrm")
    with pytest.raises(BadInput, match="length=0"):
        class_spectra(rows, np.zeros(3000, dtype=int), length=0)
    with pytest.raises(BadInput, match="rows: 1 of 2 rows contain NaN"):
        spectrum([[0.0, 1.0], [1.0, math.nan]])
