"""Count all pairs of a set by similarity, in blocks, separately for positive and negative pairs.

No n x n matrix is built. Similarity is larger for nearer rows: the cosine, the inner product, minus half the squared
distance, minus half the number of different bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.distances import Change, Selection
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import product
from levelfield.progress import SILENT, Progress

BINS = 2**18
_ROWS, _COLUMNS = 512, 1024  # block size: 2 MB in float32
_NEAR = 0.99  # the Euclidean grid spans the distances between this share of the rows; thresholds beyond are useless


@dataclass(frozen=True)
class Grid:
    """Edges `(first + k) * width`, k = 0..bins; the width is a power of two, so that no comparison rounds."""

    first: int
    width: float
    bins: int

    def edges(self, numbers: Array) -> Array:
        return np.asarray((self.first + numbers) * self.width)

    @classmethod
    def of(cls, rows: Array, half: Array | None, distance: str) -> Grid:
        """Grid over the range of similarities, in some 200,000 steps; one step per bit for Hamming distances."""
        if distance == "hamming":
            return cls(-rows.shape[1], 0.5, rows.shape[1] + 1)
        low, high = -1.0, 1.0
        if half is not None:
            low, high = -4.0 * float(np.quantile(half, _NEAR, method="higher")), 0.0
        elif distance == "dot":
            high = max(float(np.square(row, dtype=np.float64).sum()) for row in rows)
            low = -high
        width = 2.0 ** math.ceil(math.log2((high - low) / BINS)) if high > low else 1.0
        first, last = math.floor(low / width), math.floor(high / width)
        return cls(first, width, last - first + 1)


@dataclass(frozen=True)
class PairSet:
    """Rows sorted by class for pairing: `codes` is non-decreasing."""

    rows: Array
    half: Array | None
    scale: float
    codes: Array
    grid: Grid

    @cached_property
    def class_sizes(self) -> Array:
        return np.bincount(self.codes)

    @property
    def same_pairs(self) -> int:
        return int(self.by_class[0].sum())

    @property
    def other_pairs(self) -> int:
        return int(self.by_class[1].sum()) // 2

    @property
    def by_class(self) -> tuple[Array, Array]:
        """Pairs within each class, and between it and the others; the latter belong to two classes each."""
        sizes = self.class_sizes
        return sizes * (sizes - 1) // 2, sizes * (len(self.rows) - sizes)


def pair_set(rows: Array, codes: Array, *, distance: str, name: str = "embeddings") -> PairSet:
    """Sort rows by class, and by content within a class, so that the input order does not matter."""
    codes = np.unique(codes, return_inverse=True)[1]
    classes = int(codes.max()) + 1
    if classes < 2:
        raise BadInput(f"{name} are all of one class; at least two classes are needed.")
    if len(rows) == classes:
        raise BadInput(
            f"{name}: each of the {classes} classes has one image, so there is no positive pair. "
            "At least one class with two images is needed."
        )
    order = class_order(rows, codes)
    ordered = Selection(rows, order)
    change = Change.of(ordered, ordered, distance=distance)
    rows = change.rows(ordered)
    half = change.offset(rows)
    return PairSet(rows, half, change.scale, codes[order], Grid.of(rows, half, distance))


def histogram(pairs: PairSet, progress: Progress = SILENT) -> Array:
    """`[2, bins]`: numbers of positive and of negative pairs in each bin of the grid."""
    grid = pairs.grid
    bins = np.zeros((2, grid.bins), dtype=np.int64)
    for similarity, positive, _, _ in _blocks(pairs, progress):
        present = np.isfinite(similarity)
        values, same = similarity[present], positive[present]
        # the last edge at or below each similarity; values outside the grid go to its ends
        numbers = np.floor(values * values.dtype.type(1 / grid.width)).astype(np.int64) - grid.first
        np.clip(numbers, 0, grid.bins - 1, out=numbers)
        for line, part in zip(bins, (same, ~same), strict=True):
            line += np.bincount(numbers[part], minlength=len(line))
    return bins


def count_by_class(pairs: PairSet, edges: Array, progress: Progress = SILENT) -> tuple[Array, Array]:
    """Positive and negative pairs at or above each of the ascending edges, both `[edges, classes]`.

    A negative pair is counted for both of its classes. Memory: O(edges * classes).
    """
    same, other = (np.zeros((len(pairs.class_sizes), len(edges)), dtype=np.int64) for _ in range(2))
    for similarity, positive, rows, columns in _blocks(pairs, progress):
        row, column = np.nonzero(similarity >= similarity.dtype.type(edges[0]))
        level = np.searchsorted(edges, similarity[row, column], side="right") - 1
        is_same = positive[row, column]
        _add(same, rows, row[is_same], level[is_same])
        _add(other, rows, row[~is_same], level[~is_same])
        _add(other, columns, column[~is_same], level[~is_same])
    above = [np.cumsum(counts[:, ::-1], axis=1)[:, ::-1].T for counts in (same, other)]
    return above[0], above[1]


def _add(table: Array, codes: Array, at: Array, level: Array) -> None:
    """Count pairs in the rows of a table that belong to the classes of a block; other rows are not touched."""
    window = table[codes[0] : codes[-1] + 1]
    keys = (codes[at] - codes[0]) * window.shape[1] + level
    window += np.bincount(keys, minlength=window.size).reshape(window.shape)


def _blocks(pairs: PairSet, progress: Progress) -> Iterator[tuple[Array, Array, Array, Array]]:
    """(similarity, mask of positive pairs, classes of the rows and of the columns); -inf at and below the diagonal."""
    count = len(pairs.rows)
    stage = progress.stage("comparing pairs", count * (count + 1) // 2)
    for top in range(0, count, _ROWS):
        rows = slice(top, min(top + _ROWS, count))
        for left in range(top, count, _COLUMNS):
            columns = slice(left, min(left + _COLUMNS, count))
            similarity = product(pairs.rows[rows], pairs.rows[columns])
            if pairs.half is not None:
                similarity -= pairs.half[rows][:, None]
                similarity -= pairs.half[columns]
            if left < rows.stop:
                similarity[np.tri(rows.stop - top, columns.stop - left, top - left, dtype=bool)] = -np.inf
            codes = pairs.codes[rows], pairs.codes[columns]
            yield similarity, codes[0][:, None] == codes[1], *codes
        height = rows.stop - top
        stage.advance(height * (count - top) - height * (height - 1) // 2)
