"""A canonical order of rows: the engine works in it, so that the caller's order of rows can't change a single bit."""

from __future__ import annotations

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.randomness import numpy_stream

_CHUNK = 1024


def row_numbers(rows: Array) -> Array:
    """A 64-bit number for each row that depends on its bits alone; equal rows have equal numbers."""
    words = np.ascontiguousarray(rows).view(np.uint32 if rows.dtype.itemsize == 4 else np.uint64)
    factors = numpy_stream(0, "evaluation", "row numbers").integers(1, 2**63, size=words.shape[1], dtype=np.uint64) | 1
    parts = [(words[start : start + _CHUNK].astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
             for start in range(0, len(words), _CHUNK)]
    return np.concatenate(parts)


def canonical_order(rows: Array, codes: Array) -> Array:
    """Positions that sort rows by their number, equal rows by their class.

    >>> rows = np.array([[1.0], [2.0], [3.0]])
    >>> shuffled = rows[[2, 0, 1]]
    >>> bool((rows[canonical_order(rows, np.arange(3))] == shuffled[canonical_order(shuffled, np.arange(3))]).all())
    True
    """
    return np.lexsort((codes, row_numbers(rows)))


def first_twins(rows: Array) -> Array:
    """For each of the rows in canonical order, the position of the first row with the same bits.

    >>> first_twins(np.array([[5.0], [7.0], [7.0], [1.0]]))
    array([0, 1, 1, 3])
    """
    positions = np.arange(len(rows))
    new = np.ones(len(rows), dtype=bool)
    for start in range(1, len(rows), _CHUNK):
        stop = min(start + _CHUNK, len(rows))
        new[start:stop] = (rows[start:stop] != rows[start - 1 : stop - 1]).any(axis=1)
    return np.maximum.accumulate(np.where(new, positions, 0))
