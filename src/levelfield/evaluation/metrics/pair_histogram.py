"""Count all pairs of a set by similarity, in blocks, separately for positive and negative pairs.

No n x n matrix is built, and each pair is computed once. Similarity is larger for nearer rows: the cosine, the inner
product, minus half the squared distance, minus half the number of different bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from levelfield.errors import BadInput
from levelfield.evaluation.inputs import Array
from levelfield.evaluation.search.distances import Selection, prepare
from levelfield.evaluation.search.order import row_numbers
from levelfield.evaluation.search.products import product
from levelfield.progress import SILENT, Progress
from levelfield.randomness import numpy_stream

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
        result: Array = (self.first + numbers) * self.width
        return result

    def bin_of(self, similarity: Array) -> Array:
        """The last edge at or below each similarity; values outside the grid go to its ends."""
        numbers = np.floor(similarity * similarity.dtype.type(1 / self.width)).astype(np.int64) - self.first
        clipped: Array = np.clip(numbers, 0, self.bins - 1, out=numbers)
        return clipped


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
        """Class sizes, in the order of the rows."""
        return np.diff(self._starts, append=len(self.codes))

    @cached_property
    def _starts(self) -> Array:
        return np.flatnonzero(np.diff(self.codes, prepend=-1))

    @property
    def same_pairs(self) -> int:
        return int((self.class_sizes * (self.class_sizes - 1) // 2).sum())

    @property
    def other_pairs(self) -> int:
        return len(self.rows) * (len(self.rows) - 1) // 2 - self.same_pairs

    def by_class(self) -> tuple[Array, Array]:
        """Pairs within each class, and between it and the others; the latter belong to two classes each."""
        sizes = self.class_sizes
        return sizes * (sizes - 1) // 2, sizes * (len(self.rows) - sizes)

    def sample(self, size: int, *, seed: int) -> PairSet:
        """Random classes with at least `size` rows in total; of large classes only a part."""
        most = max(size // min(len(self.class_sizes), 64), 2)
        position = np.arange(len(self.codes)) - np.repeat(self._starts, self.class_sizes)
        order = numpy_stream(seed, "pairs", "sample").permutation(len(self.class_sizes))
        enough = np.searchsorted(np.cumsum(np.minimum(self.class_sizes, most)[order]), size) + 1
        chosen = np.isin(np.repeat(np.arange(len(order)), self.class_sizes), order[: max(enough, 2)])
        kept = chosen & (position < most)
        codes = np.unique(self.codes[kept], return_inverse=True)[1]
        part = replace(self, rows=self.rows[kept], half=None if self.half is None else self.half[kept], codes=codes)
        return part if part.same_pairs else self


def pair_set(rows: Array, codes: Array, *, distance: str, what: str = "embeddings") -> PairSet:
    """Sort rows by class, and by content within a class, so that the input order does not matter.

    >>> pairs = pair_set(np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]]), np.array([7, 3, 7]), distance="cosine")
    >>> pairs.codes.tolist(), pairs.same_pairs, pairs.other_pairs
    ([0, 1, 1], 1, 2)
    """
    codes = np.unique(codes, return_inverse=True)[1]
    classes = int(codes.max()) + 1
    if classes < 2:
        raise BadInput(f"{what} are all of one class; at least two classes are needed.")
    if len(rows) == classes:
        raise BadInput(
            f"{what}: each of the {classes} classes has one image, so there is no positive pair. "
            "At least one class with two images is needed."
        )
    order = np.lexsort((row_numbers(rows), codes))
    chosen = Selection(rows, order)
    ready = prepare(chosen, chosen, distance=distance)
    grid = _grid(ready.query, ready.offset, distance)
    return PairSet(ready.query, ready.offset, ready.scale, codes[order], grid)


@dataclass(frozen=True)
class Counts:
    """Numbers of pairs at or above each edge, by class, and of pairs above the first edge, by bin of the grid.

    A pair of two classes is counted for both of them.
    """

    same: Array  # [edges, classes]
    other: Array  # [edges, classes]
    same_bins: Array
    other_bins: Array


def count_pairs(pairs: PairSet, edges: Array, *, fine: bool = True, progress: Progress = SILENT) -> Counts:
    """Count all pairs once. edges: ascending. Without `fine` the bins stay empty. Memory: O(edges * classes).

    Most pairs are negative and below the first edge; each of those costs one comparison.
    """
    classes, levels = len(pairs.class_sizes), len(edges)
    same, other = (np.zeros((classes, levels), dtype=np.int64) for _ in range(2))
    bins = np.zeros((2, pairs.grid.bins if fine else 0), dtype=np.int64)
    for similarity, positive, rows, columns in _blocks(pairs, progress):
        flat = similarity.ravel()
        near = np.flatnonzero(flat >= flat.dtype.type(edges[0]))
        nearest = flat[near]
        is_same = np.zeros(len(near), dtype=bool) if positive is None else positive.ravel()[near]
        row, column = np.divmod(near, similarity.shape[1])
        level = np.searchsorted(edges, nearest, side="right") - 1
        _add(other, pairs.codes[rows], row[~is_same], level[~is_same])
        _add(other, pairs.codes[columns], column[~is_same], level[~is_same])
        if positive is not None:
            _add(same, pairs.codes[rows], row[is_same], level[is_same])
        if fine:
            numbers = pairs.grid.bin_of(nearest)
            for line, chosen in zip(bins, (is_same, ~is_same), strict=True):
                line += np.bincount(numbers[chosen], minlength=len(line))
    above = [np.cumsum(counts[:, ::-1], axis=1)[:, ::-1].T for counts in (same, other)]
    return Counts(above[0], above[1], bins[0], bins[1])


def _add(table: Array, codes: Array, at: Array, level: Array) -> None:
    """Count pairs in the rows of a table that belong to the classes of a block; other rows are not touched."""
    window = table[codes[0] : codes[-1] + 1]
    keys = (codes[at] - codes[0]) * window.shape[1] + level
    window += np.bincount(keys, minlength=window.size).reshape(window.shape)


def _blocks(pairs: PairSet, progress: Progress) -> Iterator[tuple[Array, Array | None, slice, slice]]:
    """(similarity, mask of positive pairs or None if there are none, rows, columns); -inf at and below the diagonal."""
    n = len(pairs.rows)
    stage = progress.stage("comparing pairs", _entries(n))
    numbers = np.arange(n)
    for top in range(0, n, _ROWS):
        rows = slice(top, min(top + _ROWS, n))
        for left in range(top, n, _COLUMNS):
            columns = slice(left, min(left + _COLUMNS, n))
            similarity = product(pairs.rows[rows], pairs.rows[columns])
            if pairs.half is not None:
                similarity -= pairs.half[rows][:, None]
                similarity -= pairs.half[columns]
            positive = None
            if left < rows.stop:
                similarity[numbers[rows][:, None] >= numbers[columns]] = -np.inf
            # rows are sorted by class, so only the last class of the block can reach into later columns
            if left < rows.stop or pairs.codes[rows.stop - 1] == pairs.codes[left]:
                positive = (pairs.codes[rows][:, None] == pairs.codes[columns]) & np.isfinite(similarity)
            yield similarity, positive, rows, columns
            stage.advance((rows.stop - top) * (columns.stop - left))


def _entries(n: int) -> int:
    """Number of entries in all blocks of n rows."""
    return sum((min(top + _ROWS, n) - top) * (n - top) for top in range(0, n, _ROWS))


def _grid(rows: Array, half: Array | None, distance: str) -> Grid:
    """Grid over the range of similarities, in some 200,000 steps; one step per bit for Hamming distances."""
    if distance == "hamming":
        return Grid(-rows.shape[1], 0.5, rows.shape[1] + 1)
    low, high = -1.0, 1.0
    if half is not None:
        low, high = -4.0 * float(np.quantile(half, _NEAR, method="higher")), 0.0
    elif distance == "dot":
        high = max(float(np.square(row, dtype=np.float64).sum()) for row in rows)
        low = -high
    width = 2.0 ** math.ceil(math.log2((high - low) / BINS)) if high > low else 1.0
    first, last = math.floor(low / width), math.floor(high / width)
    return Grid(first, width, last - first + 1)
