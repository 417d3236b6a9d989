"""Prepare rows so that a matrix product minus an offset gives a similarity (larger is nearer) for every distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from levelfield.errors import BadInput, unknown
from levelfield.evaluation.inputs import Array, Arrays, as_array

Distance = Literal["cosine", "euclidean", "dot", "hamming"]
DISTANCES: tuple[Distance, ...] = get_args(Distance)
_CHUNK = 128  # rows converted to float64 at a time: they fit in the cache


def distance_called(name: str) -> Distance:
    """Return `name` if it is a known distance."""
    if name not in DISTANCES:
        raise unknown("distance", name, DISTANCES)
    return name


@dataclass(frozen=True)
class Selection:
    """Rows in a given order (None: unchanged), padded with zeros to a given number."""

    rows: Array
    order: Array | None = None
    room: int | None = None

    def change(self, change: Callable[[Array], Array], dtype: type[np.generic] | None = None) -> Array:
        """New rows: apply `change` in float64, a few rows at a time."""
        count = len(self.rows)
        result = np.empty((self.room or count, self.rows.shape[1]), dtype or self.rows.dtype)
        result[count:] = 0
        for start in range(0, count, _CHUNK):
            result[start : min(start + _CHUNK, count)] = change(self.part(start))
        return result

    def part(self, start: int) -> Array:
        """Some rows from `start` on, in float64."""
        stop = start + _CHUNK
        return self.rows[slice(start, stop) if self.order is None else self.order[start:stop]].astype(np.float64)


@dataclass(frozen=True)
class Change:
    """What a distance does to rows before the product; the same for queries and gallery.

    Similarity of query i and gallery row j is `query[i] @ gallery[j] - offset(gallery)[j]`, up to a constant per query.
    """

    distance: str
    scale: float = 1.0
    shift: Array | None = None

    @classmethod
    def of(cls, query: Selection, gallery: Selection, *, distance: str) -> Change:
        """The change of a distance. It depends on the rows if their lengths matter, but not on their order."""
        if distance_called(distance) in ("cosine", "hamming"):
            return cls(distance)
        # Dividing by a power of two preserves order and ties and prevents overflow of squares.
        scale = max(scale_of(query.rows), scale_of(gallery.rows))
        if distance == "dot":
            return cls(distance, scale)
        # |a|^2 + |b|^2 - 2ab loses small distances if all rows share a large offset, so centre the rows at the origin,
        # in multiples of a power of two: integers must stay integers to keep ties exact.
        count = len(gallery.rows)
        starts = range(0, count, _CHUNK)
        mean = sum((gallery.part(start) / scale).sum(axis=0) for start in starts) / count
        variance = sum(np.square(gallery.part(start) / scale - mean).sum(axis=0) for start in starts) / count
        step = _power_of_two_above(float(np.sqrt(variance).max()))
        return cls(distance, scale, np.rint(mean / step) * step)

    def rows(self, rows: Selection) -> Array:
        """The changed rows as a new array."""
        return rows.change(self, np.float32 if self.distance == "hamming" else None)

    def __call__(self, part: Array) -> Array:
        if self.distance == "cosine":
            return _unit(part)
        if self.distance == "hamming":
            return np.asarray(part > 0)
        scaled: Array = part / self.scale
        return (scaled if self.shift is None else scaled - self.shift) + 0.0

    def offset(self, gallery: Array) -> Array | None:
        """What is subtracted from the products with changed gallery rows."""
        # |a - b|^2 of 0/1 rows counts the differing bits; exact in float32 below 2^24 bits
        return half_squares(gallery) if self.distance in ("hamming", "euclidean") else None


def unit_rows(rows: Array, dtype: type[np.generic] | None = None) -> Array:
    """Rows of length 1 (zero rows stay zero); safe for norms far outside the range of float32."""
    return Selection(rows).change(_unit, dtype)


def paired_similarities(left: Array, right: Array, *, distance: str) -> Array:
    """Similarities of rows `[..., d]` in float64: cosine (of unit rows), inner product, minus the Euclidean distance,
    or minus the number of different bits.
    """
    if distance == "hamming":
        return np.asarray(-((left > 0) != (right > 0)).sum(axis=-1))
    if distance == "euclidean":
        return np.asarray(-np.sqrt(np.square(left - right).sum(axis=-1)))
    return np.asarray((left * right).sum(axis=-1))


def joined(members: Sequence[Arrays]) -> Array:
    """Normalise the rows of each member (n, d_k) to length 1 and concatenate them: float32 (n, sum of d_k).

    Without normalisation the member with the longest rows would dominate. The result is not normalised again: every row
    without a zero part has length sqrt(members), so Euclidean distance and cosine rank equally. A zero row stays zero.
    The bits of a row depend only on that row.

    >>> joined([np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[100.0], [-7.0]])])
    array([[ 0.6,  0.8,  1. ],
           [ 0. ,  0. , -1. ]], dtype=float32)
    """
    if not len(members):
        raise BadInput("No members to join: pass at least one.")
    arrays = [np.ascontiguousarray(as_array(rows, f"member {number}")) for number, rows in enumerate(members)]
    for number, rows in enumerate(arrays):
        if rows.ndim != 2:
            raise BadInput(f"Member {number} has shape {rows.shape}; expected (images, dim).")
        if len(rows) != len(arrays[0]):
            raise BadInput(
                f"Member {number} has {len(rows)} rows but member 0 has {len(arrays[0])}: all members need the same "
                "images in the same order."
            )
    return np.concatenate([unit_rows(rows, np.float32) for rows in arrays], axis=1)


def _unit(part: Array) -> Array:
    largest = np.abs(part).max(axis=1, keepdims=True)
    part /= np.where(largest > 0, largest, 1.0)
    length = np.sqrt((part * part).sum(axis=1, keepdims=True))
    part /= np.where(length > 0, length, 1.0)
    part += 0.0  # turns -0 into 0
    return part


def half_squares(rows: Array) -> Array:
    """|row|^2 / 2 of each row, summed in float64."""
    result = np.empty(len(rows), rows.dtype)
    for start in range(0, len(rows), _CHUNK):
        result[start : start + _CHUNK] = 0.5 * np.square(rows[start : start + _CHUNK], dtype=np.float64).sum(axis=1)
    return result


def scale_of(rows: Array) -> float:
    """Smallest power of two at or above the largest number, without its sign."""
    starts = range(0, len(rows), _CHUNK)
    return _power_of_two_above(max(float(np.abs(rows[start : start + _CHUNK]).max()) for start in starts))


def _power_of_two_above(value: float) -> float:
    return float(2.0 ** min(np.ceil(np.log2(value)), 1023)) if value > 0 else 1.0  # 2^1024 exceeds float64
