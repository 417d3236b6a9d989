"""Orders of rows that depend on the rows alone: the engine works in them, so the caller's order can't change a bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from levelfield.evaluation.inputs import Array
from levelfield.randomness import numpy_stream

_CHUNK = 64  # rows at a time: they stay in cache


def row_numbers(rows: Array) -> Array:
    """A 64-bit number for each row that depends on its bits alone; equal rows have equal numbers."""
    # Words of 32 bits also for float64: the low half of 1.0 is zero, and a product with it would lose its upper bits.
    width = rows.shape[1] * rows.dtype.itemsize // 4
    factors = numpy_stream(0, "evaluation", "row numbers").integers(1, 2**63, size=width, dtype=np.uint64) | 1
    result = np.empty(len(rows), np.uint64)
    for part in _chunks(len(rows)):
        words = np.ascontiguousarray(rows[part]).view(np.uint32)
        result[part] = np.multiply(words, factors, dtype=np.uint64).sum(axis=1)
    return result


def canonical_order(rows: Array, codes: Array) -> Array:
    """Positions that sort rows by their number, equal rows by their class.

    >>> rows = np.array([[1.0], [2.0], [3.0]])
    >>> shuffled = rows[[2, 0, 1]]
    >>> bool((rows[canonical_order(rows, np.arange(3))] == shuffled[canonical_order(shuffled, np.arange(3))]).all())
    True
    """
    return np.lexsort((codes, row_numbers(rows)))


def class_order(rows: Array, codes: Array) -> Array:
    """Positions that sort rows by their class, those of a class by their number.

    >>> class_order(np.array([[5.0], [7.0], [6.0]]), np.array([1, 0, 1]))[0]
    np.int64(1)
    """
    return np.lexsort((row_numbers(rows), codes))


def first_twins(rows: Array) -> Array:
    """For each row the position of the first row with the same bits.

    >>> first_twins(np.array([[5.0], [7.0], [1.0], [7.0]]))
    array([0, 1, 2, 1])
    """
    numbers = row_numbers(rows)
    order = np.argsort(numbers, kind="stable")
    ahead, behind = order[:-1], order[1:]
    same = numbers[ahead] == numbers[behind]
    for part in _chunks(len(same)):
        if same[part].any():
            same[part] &= (rows[ahead[part]] == rows[behind[part]]).all(axis=1)
    result = np.empty(len(rows), np.int64)
    result[order] = order[np.maximum.accumulate(np.where(np.append(False, same), 0, np.arange(len(rows))))]
    return result


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK))
