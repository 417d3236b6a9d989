"""Exact nearest rows of an index: blocks of the matrix product, of which the best entries are kept. Numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Positions = NDArray[np.int64]
Entries = tuple[Positions, Positions, Rows]
"""Query, position and value of products that may be among the largest."""
FLOAT, BINARY = "float32", "binary"
_QUERIES, _COLUMNS = 1024, 1024  # a block of the product: 4 MB
_FIRST = 512  # columns of the first block, of which every entry is compared; then they double
_ENTRIES = 2**20  # numbers that are gathered at a time


@dataclass(frozen=True)
class Stored:
    """The rows of an index as they are on disk: float32 (images, dim), or packed bits (images, dim / 8) in uint8."""

    values: NDArray[Any]
    dim: int
    codes: str

    def __len__(self) -> int:
        return len(self.values)

    def part(self, which: slice | Positions) -> Rows:
        """Some rows as unit rows in float32."""
        if self.codes == FLOAT:
            return np.asarray(self.values[which], dtype=np.float32)
        bits = np.unpackbits(self.values[which], axis=-1, count=self.dim)
        return (bits * np.float32(2) - 1) * np.float32(self.dim**-0.5)


def packed(rows: Rows, codes: str) -> NDArray[Any]:
    """Unit rows as an index stores them.

    >>> packed(np.float32([[0.5, -0.5, 0.5, 0.5]]), "binary")
    array([[176]], dtype=uint8)
    """
    return np.packbits(rows > 0, axis=1) if codes == BINARY else np.ascontiguousarray(rows, dtype=np.float32)


def nearest(stored: Stored, queries: Rows, k: int) -> tuple[Positions, NDArray[np.float64]]:
    """Positions and cosines (queries, k) of the rows nearest to each unit row; equal rows in the order of the index.

    Memory: 4 MB for any number of rows, and the result.

    >>> stored = Stored(np.float32([[1, 0], [0, 1], [0.6, 0.8]]), 2, FLOAT)
    >>> nearest(stored, np.float32([[0.8, 0.6]]), 2)
    (array([[2, 0]]), array([[0.96, 0.8 ]]))
    """
    k = min(k, len(stored))
    parts = [_best(stored, queries[top : top + _QUERIES], k) for top in range(0, len(queries), _QUERIES)]
    positions = np.concatenate(parts) if parts else np.zeros((0, k), np.int64)
    return ordered(stored, queries, positions)


def ordered(stored: Stored, queries: Rows, positions: Positions) -> tuple[Positions, NDArray[np.float64]]:
    """The same positions with their cosines in float64, nearest first; a position of -1 is none and comes last."""
    cosine = np.empty(positions.shape)
    step = max(1, _ENTRIES // max(1, positions.shape[1] * stored.dim))
    for top in range(0, len(positions), step):
        part = positions[top : top + step]
        near = stored.part(part.ravel()).reshape(*part.shape, stored.dim)
        cosine[top : top + step] = np.einsum("qkd,qd->qk", near, queries[top : top + step], dtype=np.float64)
    cosine = np.where(positions < 0, -np.inf, np.round(cosine, 6))  # what is beyond 6 digits of float32 is no order
    order = np.lexsort((positions, -cosine))
    return np.take_along_axis(positions, order, axis=1), np.take_along_axis(cosine, order, axis=1)


def _best(stored: Stored, queries: Rows, k: int) -> Positions:
    """Positions (queries, k) of the largest products, in any order; -1 where a product is no number.

    After the first block, which is small, an entry is kept only if it is larger than the k-th best of its query so far:
    one comparison, which few entries pass. Those are sorted in when there are as many as results.
    """
    positions = np.full((len(queries), k), -1, dtype=np.int64)
    least = np.full(len(queries), -np.inf, dtype=np.float32)  # the k-th best of each query so far
    entries: list[Entries] = []
    left, width, waiting = 0, min(_COLUMNS, max(_FIRST, 2 * k)), 0
    most = len(queries) * max(_COLUMNS, width)
    space, above = np.empty(most, dtype=np.float32), np.empty(most, dtype=bool)
    while k and left < len(stored):
        rows = stored.part(slice(left, left + width))
        shape = (len(queries), len(rows))
        values = np.matmul(queries, rows.T, out=space[: shape[0] * shape[1]].reshape(shape))
        if left == 0 and len(rows) > k:
            least = np.partition(values, len(rows) - k, axis=1)[:, len(rows) - k]
            passed = values >= least[:, None]  # all that equal the k-th best: the first of them are kept
        else:
            passed = np.greater(values, least[:, None], out=above[: values.size].reshape(shape))
        line, column = np.divmod(np.flatnonzero(passed), len(rows))
        entries.append((line, left + column, values[line, column]))
        waiting += len(line)
        if waiting > 2 * positions.size or left + width >= len(stored):
            line, rank, position, value = _largest(entries, k)
            positions[line, rank] = position
            least[line[rank == k - 1]] = value[rank == k - 1]
            entries, waiting = [(line, position, value)], 0
        left, width = left + len(rows), min(_COLUMNS, 2 * width)
    return positions


def _largest(entries: list[Entries], k: int) -> tuple[Positions, Positions, Positions, Rows]:
    """Query, rank, position and value of the k largest entries of each query; of equal ones the first positions."""
    line, position, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    # one stable sort by query, then value: the entries come in the order of their positions
    order = np.argsort(line * (2.0 * np.abs(value).max(initial=1.0) + 1.0) - value, kind="stable")
    rank = np.arange(len(line)) - np.searchsorted(line[order], line[order])
    kept, rank = order[rank < k], rank[rank < k]
    return line[kept], rank, position[kept], value[kept]
