"""Matrix products whose entries do not depend on how many others were computed beside them."""

from __future__ import annotations

import numpy as np
import torch

from levelfield.evaluation.inputs import Array

# Measured (MKL, AVX-512 and AVX2): the last bits of an entry differ between a product with a handful of rows or columns
# and a larger one, and agree between all products of at least this size, on one thread or two.
TILE = 64


def product(left: Array, right: Array, *, rows: Array | None = None, columns: Array | None = None) -> Array:
    """`left[rows] @ right[columns].T` as a new array, computed in whole tiles.

    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    array([[11.,  1.]])
    """
    height = len(left) if rows is None else len(rows)
    width = len(right) if columns is None else len(columns)
    result = torch.from_numpy(_tiled(left, rows)) @ torch.from_numpy(_tiled(right, columns)).T
    return np.ascontiguousarray(result.numpy()[:height, :width])


def _tiled(values: Array, chosen: Array | None) -> Array:
    """The chosen rows, the last one repeated until the tile is full."""
    count = len(values) if chosen is None else len(chosen)
    if chosen is None and count >= TILE:
        return values
    positions = np.arange(count) if chosen is None else chosen
    return values[np.pad(positions, (0, max(TILE - count, 0)), mode="edge")]
