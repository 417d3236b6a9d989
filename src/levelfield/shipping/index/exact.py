"""Exact nearest rows of an index: blocks of the matrix product, of which the best entries are kept. Numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Positions = NDArray[np.int64]
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
            rows: Rows = np.asarray(self.values[which], dtype=np.float32)
            return rows
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
    """Positions (queries, k) of the largest products, in any order.

    After the first block, which is small, an entry is kept only if it is larger than the k-th best of its query so far:
    one comparison, which few entries pass. Those are sorted in when there are as many as results.
    """
    best = _Best(len(queries), k)
    left, width = 0, min(_COLUMNS, max(_FIRST, 2 * k))
    most = len(queries) * max(_COLUMNS, width)
    space, above = np.empty(most, dtype=np.float32), np.empty(most, dtype=bool)
    while k and left < len(stored):
        rows = stored.part(slice(left, left + width))
        shape = (len(queries), len(rows))
        values = np.matmul(queries, rows.T, out=space[: shape[0] * shape[1]].reshape(shape))
        if left == 0 and len(rows) > k:
            cut = np.partition(values, len(rows) - k, axis=1)[:, len(rows) - k]
            passed = values >= cut[:, None]  # all that equal the k-th best: the first of them are kept
        else:
            passed = np.greater(values, best.least[:, None], out=above[: values.size].reshape(shape))
        line, column = np.divmod(np.flatnonzero(passed), len(rows))
        best.add(line, left + column, values[line, column])
        if left == 0:
            best.settle()
        left, width = left + len(rows), min(_COLUMNS, 2 * width)
    best.settle()
    return best.positions


class _Best:
    """The k best entries of each query so far, and entries that may replace some of them."""

    def __init__(self, count: int, k: int) -> None:
        self.count, self.k = count, k
        self.positions = np.full((count, k), -1, dtype=np.int64)
        self.values = np.full((count, k), -np.inf, dtype=np.float32)
        self._new: list[tuple[NDArray[np.int64], NDArray[np.int64], Rows]] = []
        self._waiting = 0

    @property
    def least(self) -> Rows:
        """The smallest value that was kept for each query: entries at or below it are not needed."""
        least: Rows = self.values[:, -1]
        return least

    def add(self, line: NDArray[np.int64], position: NDArray[np.int64], value: Rows) -> None:
        self._new.append((line, position, value))
        self._waiting += len(line)
        if self._waiting > self.count * self.k:
            self.settle()

    def settle(self) -> None:
        """Sort the waiting entries in, for the queries that have some. Of equal entries the first position is kept."""
        if not self._waiting:
            return
        line, position, value = (np.concatenate(part) for part in zip(*self._new, strict=True))
        order = np.argsort(line, kind="stable")
        changed, starts, counts = np.unique(line[order], return_index=True, return_counts=True)
        slots = np.repeat(np.arange(len(changed)), counts), self.k + np.arange(len(line)) - np.repeat(starts, counts)
        values = np.full((len(changed), self.k + counts.max()), -np.inf, dtype=np.float32)
        positions = np.full(values.shape, -1, dtype=np.int64)
        values[:, : self.k], positions[:, : self.k] = self.values[changed], self.positions[changed]
        values[slots], positions[slots] = value[order], position[order]
        best = np.argsort(-values, axis=1, kind="stable")[:, : self.k]
        self.values[changed] = np.take_along_axis(values, best, axis=1)
        self.positions[changed] = np.take_along_axis(positions, best, axis=1)
        self._new, self._waiting = [], 0
