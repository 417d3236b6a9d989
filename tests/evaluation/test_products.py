from __future__ import annotations

import numpy as np
import pytest

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
