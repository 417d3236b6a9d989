"""Rows made ready so that one matrix product and one offset give "larger is nearer" for every distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.errors import unknown
from levelfield.evaluation.inputs import Array

DISTANCES = ("cosine", "euclidean", "dot", "hamming")
_CHUNK = 1024  # rows lifted to float64 at a time: the embeddings are never doubled in memory


@dataclass(frozen=True)
class Prepared:
    """Similarity of query i and gallery row j is `query[i] @ gallery[j] - offset[j]`, up to a constant per query."""

    query: Array
    gallery: Array
    offset: Array | None


def prepare(query: Array, gallery: Array, *, distance: str) -> Prepared:
    """Rows for `distance`; new arrays of the same type.

    >>> rows = np.array([[3.0, 4.0], [0.0, 0.0]])
    >>> prepare(rows, rows, distance="cosine").query
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if distance not in DISTANCES:
        raise unknown("distance", distance, DISTANCES)
    same = query is gallery
    if distance == "cosine":
        ready = unit_rows(query)
        return Prepared(ready, ready if same else unit_rows(gallery), None)
    if distance == "dot":
        scale = _power_of_two_above(max(_largest(query), _largest(gallery)))
        ready = _shifted(query, None, scale)
        return Prepared(ready, ready if same else _shifted(gallery, None, scale), None)
    if distance == "hamming":  # |a - b|^2 of 0/1 rows counts the differing bits; exact in float32 below 2^24 bits
        ready = (query > 0).astype(np.float32)
        other = ready if same else (gallery > 0).astype(np.float32)
    else:
        # |a|^2 + |b|^2 - 2ab drowns small distances when all rows share a large offset, so the rows are moved to the
        # origin; by multiples of a power of two, since whole numbers must stay whole for their ties to stay exact.
        step = _power_of_two_above(float(gallery.std(axis=0, dtype=np.float64).max()))
        shift = np.rint(gallery.mean(axis=0, dtype=np.float64) / step) * step
        scale = _power_of_two_above(max(_largest(query), _largest(gallery)))
        ready = _shifted(query, shift, scale)
        other = ready if same else _shifted(gallery, shift, scale)
    return Prepared(ready, other, _half_square(other))


def unit_rows(rows: Array) -> Array:
    """Rows of length 1 (zero rows stay zero); safe for norms far outside the range of float32."""
    result = np.empty(rows.shape, rows.dtype)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK].astype(np.float64)
        largest = np.abs(part).max(axis=1, keepdims=True)
        part /= np.where(largest > 0, largest, 1.0)
        length = np.sqrt((part * part).sum(axis=1, keepdims=True))
        result[start : start + _CHUNK] = part / np.where(length > 0, length, 1.0) + 0.0  # + 0.0 turns -0 into 0
    return result


def _shifted(rows: Array, shift: Array | None, scale: float) -> Array:
    """(rows - shift) / scale. `scale` is a power of two: no order changes, and squares can't overflow."""
    result = np.empty(rows.shape, rows.dtype)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK].astype(np.float64)
        result[start : start + _CHUNK] = (part if shift is None else part - shift) / scale + 0.0
    return result


def _half_square(rows: Array) -> Array:
    halves = [0.5 * np.square(rows[start : start + _CHUNK], dtype=np.float64).sum(axis=1)
              for start in range(0, len(rows), _CHUNK)]
    return np.concatenate(halves).astype(rows.dtype)


def _largest(rows: Array) -> float:
    return max(float(rows.max()), -float(rows.min()))


def _power_of_two_above(value: float) -> float:
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 1.0
