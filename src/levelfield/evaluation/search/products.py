"""Matrix products whose entries do not depend on the size of the product."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from levelfield.evaluation.inputs import Array
from levelfield.randomness import numpy_stream

# Measured with MKL: the last bits of an entry differ between a product of a handful of rows and a larger one, and in
# float64 also in the last columns if the width is not a multiple of 24. In whole tiles all entries agree, at any
# position, on either side, with one thread or two. `steady` checks this on the current machine.
TILE = 48


def product(left: Array, right: Array) -> Array:
    """`left @ right.T` as a new array, computed in whole tiles."""
    result = torch.from_numpy(tiled(left)) @ torch.from_numpy(tiled(right)).T
    return np.ascontiguousarray(result.numpy()[: len(left), : len(right)])


def tiled(values: Array, chosen: Array | None = None) -> Array:
    """The chosen rows (not copied if all are chosen and fill their tiles), padded by repeating the last row."""
    count = len(values) if chosen is None else len(chosen)
    if chosen is None and count % TILE == 0:
        return values
    positions = np.arange(count) if chosen is None else chosen
    return np.asarray(values[np.pad(positions, (0, -count % TILE), mode="edge")])


def in_tiles(count: int) -> int:
    """Round up to whole tiles."""
    return count + -count % TILE


def steady(kind: np.dtype[np.generic], dim: int) -> bool:
    """Whether entries of products in whole tiles do not depend on position or side: required for computing only half
    of a symmetric matrix, and for replacing part of a large product by a small one."""
    return _steady(kind, dim, torch.get_float32_matmul_precision())


@lru_cache(maxsize=64)
def _steady(kind: np.dtype[np.generic], dim: int, precision: str) -> bool:
    rows = numpy_stream(0, "evaluation", "steady").normal(size=(6 * TILE, dim)).astype(kind)
    values = torch.from_numpy(rows)
    whole, moved = values @ values.T, torch.roll(values, 1, 0)
    second, fourth, rest = slice(TILE, 2 * TILE), slice(3 * TILE, 4 * TILE), slice(TILE, None)
    return all(
        (
            torch.equal(whole, whole.T),
            torch.equal(values[second] @ values[fourth].T, whole[second, fourth]),
            torch.equal(values[second] @ values[rest].T, whole[second, rest]),
            torch.equal(values[rest] @ values[second].T, whole[rest, second]),
            torch.equal(moved @ moved.T, torch.roll(whole, (1, 1), (0, 1))),
        )
    )
