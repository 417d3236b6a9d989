"""Matrix products whose entries do not depend on how many others were computed beside them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from levelfield.evaluation.inputs import Array
from levelfield.randomness import numpy_stream

# Measured with MKL: the last bits of an entry differ between a product of a handful of rows and a larger one, and in
# float64 also in the last columns of a width that is no multiple of 24. In whole tiles all entries agree, wherever
# they stand, whichever side their rows are on, on one thread or two. `steady` looks whether that holds here.
TILE = 48
# Some CPUs sum long rows in another order in small products than in large ones: there a product is the sum of the
# products of shorter pieces of the rows, the longest of these that hold.
_PIECES = (512, 128, 64, 16)


def product(left: Array, right: Array, *, rows: Array | None = None, columns: Array | None = None) -> Array:
    """`left[rows] @ right[columns].T` as a new array, computed in whole tiles.

    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    array([[11.,  1.]])
    """
    height = len(left) if rows is None else len(rows)
    width = len(right) if columns is None else len(columns)
    one, other = torch.from_numpy(tiled(left, rows)), torch.from_numpy(tiled(right, columns))
    length = _piece(left.dtype, left.shape[1])
    result = one[:, :length] @ other[:, :length].T
    for start in range(length, left.shape[1], length):
        result += one[:, start : start + length] @ other[:, start : start + length].T
    return np.ascontiguousarray(result.numpy()[:height, :width])


def tiled(values: Array, chosen: Array | None = None) -> Array:
    """The chosen rows (all, without a copy if they fill their tiles), the last one repeated until the tile is full.

    >>> tiled(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0])).shape
    (48, 1)
    """
    count = len(values) if chosen is None else len(chosen)
    if chosen is None and count % TILE == 0:
        return values
    positions = np.arange(count) if chosen is None else chosen
    padded: Array = values[np.pad(positions, (0, -count % TILE), mode="edge")]
    return padded


def in_tiles(count: int) -> int:
    """The next whole number of tiles.

    >>> in_tiles(1), in_tiles(96)
    (48, 96)
    """
    return count + -count % TILE


def _piece(kind: np.dtype[np.generic], dim: int) -> int:
    """How much of a row goes into one product."""
    return next((length for length in (dim, *_PIECES) if length <= dim and steady(kind, length)), max(dim, 1))


def steady(kind: np.dtype[np.generic], dim: int) -> bool:
    """Whether a product in whole tiles has the same entries wherever they are computed, and on either side.

    Only then may half of a symmetric matrix stand for the whole, and a small product for part of a large one.

    >>> steady(np.dtype(np.float32), 8)
    True
    """
    return _steady(kind, dim, torch.get_float32_matmul_precision())


@lru_cache(maxsize=64)
def _steady(kind: np.dtype[np.generic], dim: int, precision: str) -> bool:
    rows = numpy_stream(0, "evaluation", "steady").normal(size=(6 * TILE, dim)).astype(kind)
    values = torch.from_numpy(rows)
    whole, moved = values @ values.T, torch.roll(values, 1, 0)
    one, other, rest = slice(TILE, 2 * TILE), slice(3 * TILE, 4 * TILE), slice(TILE, None)
    return all(
        (
            torch.equal(whole, whole.T),
            torch.equal(values[one] @ values[other].T, whole[one, other]),
            torch.equal(values[one] @ values[rest].T, whole[one, rest]),
            torch.equal(values[rest] @ values[one].T, whole[rest, one]),
            torch.equal(moved @ moved.T, torch.roll(whole, (1, 1), (0, 1))),
        )
    )
