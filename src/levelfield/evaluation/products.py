"""Matrix products whose entries do not depend on how many others were computed beside them."""

from __future__ import annotations

import numpy as np
import torch

from levelfield.evaluation.inputs import Array

# Measured with MKL: the last bits of an entry differ between a product of a handful of rows and a larger one, and in
# float64 also at edges that are no multiple of 8. They agree between all products in whole tiles, on one thread or two.
TILE = 64


def product(left: Array, right: Array, *, rows: Array | None = None, columns: Array | None = None) -> Array:
    """`left[rows] @ right[columns].T` as a new array, computed in whole tiles.

    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    array([[11.,  1.]])
    """
    height = len(left) if rows is None else len(rows)
    width = len(right) if columns is None else len(columns)
    result = torch.from_numpy(tiled(left, rows)) @ torch.from_numpy(tiled(right, columns)).T
    return np.ascontiguousarray(result.numpy()[:height, :width])


def tiled(values: Array, chosen: Array | None = None) -> Array:
    """The chosen rows (all, without a copy if they fill their tiles), the last one repeated until the tile is full.

    >>> tiled(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0])).shape
    (64, 1)
    """
    count = len(values) if chosen is None else len(chosen)
    if chosen is None and count % TILE == 0:
        return values
    positions = np.arange(count) if chosen is None else chosen
    return values[np.pad(positions, (0, -count % TILE), mode="edge")]
