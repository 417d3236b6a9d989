"""Canonical orders of rows, and products whose entries depend on nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from levelfield.evaluation.search.order import canonical_order, row_numbers
from levelfield.evaluation.search.products import product


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [3, 128, 600])
@pytest.mark.parametrize("size", [1, 17, 65, 100])
def test_an_entry_does_not_depend_on_its_neighbours(kind, dim, size):
    rows = np.random.default_rng(0).normal(size=(300, dim)).astype(kind)
    parts = [np.arange(start, min(start + size, 300)) for start in range(0, 300, size)]
    whole = product(rows, rows)
    np.testing.assert_array_equal(np.concatenate([product(rows, rows, rows=part) for part in parts]), whole)
    np.testing.assert_array_equal(np.concatenate([product(rows, rows, columns=part) for part in parts], axis=1), whole)
    np.testing.assert_allclose(whole, rows.astype(np.float64) @ rows.T.astype(np.float64), atol=1e-3)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [2, 3, 8])
def test_different_rows_of_whole_numbers_have_different_numbers(kind, levels):
    rows = np.unique(np.random.default_rng(0).integers(0, levels, size=(3000, 9)), axis=0).astype(kind)
    assert len(np.unique(row_numbers(rows))) == len(rows)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_canonical_order_is_that_of_the_set(kind):
    random = np.random.default_rng(1)
    rows = random.integers(0, 3, size=(200, 2)).astype(kind)
    shuffled = rows[random.permutation(200)]
    np.testing.assert_array_equal(
        rows[canonical_order(rows, np.zeros(200))], shuffled[canonical_order(shuffled, np.zeros(200))]
    )
