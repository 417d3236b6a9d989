"""Canonical orders of rows, so that results do not depend on the caller's order."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.randomness import numpy_stream

_CHUNK = 64  # rows at a time, to fit in the cache


def row_numbers(rows: Array) -> Array:
    """64-bit hash of each row's bits; equal rows have equal hashes."""
    # Use 32-bit words for float64 too: the low half of 1.0 is zero, and a product would lose the upper bits.
    factors = _factors(rows.shape[1] * rows.dtype.itemsize // 4)
    result = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _CHUNK):
        words = np.ascontiguousarray(rows[start : start + _CHUNK]).view(np.uint32)
        result[start : start + _CHUNK] = np.multiply(words, factors, dtype=np.uint64).sum(axis=1)
    return result


@lru_cache(maxsize=8)
def _factors(width: int) -> Array:
    return numpy_stream(0, "evaluation", "row numbers").integers(1, 2**63, size=width, dtype=np.uint64) | 1


def canonical_order(rows: Array, codes: Array) -> Array:
    """Positions that sort rows by hash, equal rows by class."""
    return np.lexsort((codes, row_numbers(rows)))


def class_order(rows: Array, codes: Array) -> Array:
    """Positions that sort rows by class, then by hash."""
    return np.lexsort((row_numbers(rows), codes))


def first_twins(rows: Array) -> Array:
    """For each row, the position of the first row with the same bits."""
    _, first, same = np.unique(row_numbers(rows), return_index=True, return_inverse=True)
    return np.asarray(first[same])
