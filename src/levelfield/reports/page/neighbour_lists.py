"""One pass over all queries of a method: nearest images, rank of the first right one, and pairs by similarity.

The search is exact, in blocks; a query never finds itself. Memory: a copy of the embeddings, one block, the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.evaluation.inputs import Inputs
from levelfield.evaluation.search.arrangement import arrange
from levelfield.evaluation.search.blocked_kernels import compiled
from levelfield.evaluation.search.dense import DenseSimilarities, queries_at_once, similarities
from levelfield.evaluation.search.distances import unit_rows
from levelfield.randomness import numpy_stream
from levelfield.reports.embedding_map import LANDMARKS
from levelfield.reports.page.content import Array
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.tsne import NEIGHBOURS, Near

NEAREST = 16  # neighbours of each query
MOST_SEARCHED = 20_000  # queries of one method; a larger test set is searched for a random part of its queries
EDGES = 96  # thresholds of the error curves
# Dimensions of rows whose neighbours are also those of the map. With 3,840, a map is more faithful if its neighbours
# are found among 50 principal components (trustworthiness 0.972, otherwise 0.962); with 128 there is no difference.
_SHORT = 128
_SAMPLE = 256  # queries that find the range of the thresholds


@dataclass(frozen=True, eq=False)
class Method:
    """A row with test embeddings: its index on the leaderboard, and the threshold that validation classes chose."""

    row: int
    label: str
    rows: Array
    trained: bool = True
    folder: Path | None = None
    distance: str = "cosine"
    threshold: float | None = None


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The nearest images of each query by the embeddings of one method.

    queries: those searched, ascending. neighbours: (queries, k) numbers of images; similarity: (queries, k).
    first_right: rank of the nearest image of the query's class, 0: there is none. same, other: (classes, EDGES) pairs
    at or above each of `edges`, by the query's class; None if similarities are not cosines.
    """

    queries: Array
    neighbours: Array
    similarity: Array
    first_right: Array
    edges: Array | None = None
    same: Array | None = None
    other: Array | None = None
    pairs: Array | None = None  # (2, classes): all pairs of the same class, and all others
    mapped: Near | None = None  # what a map of the images needs, if all of them were searched


def searched(images: ImageSet) -> Array:
    """The queries to search: all, or a random part of a large test set, the same for every method."""
    queries = images.queries
    if len(queries) <= MOST_SEARCHED:
        return queries
    return np.sort(numpy_stream(0, "page", "queries").choice(queries, MOST_SEARCHED, replace=False))


def search(rows: Array, images: ImageSet, *, distance: str = "cosine") -> SearchResult | None:
    """Search the test embeddings (images, dim) of one method; None if there are fewer than two images to compare."""
    queries, gallery = searched(images), images.gallery
    if len(gallery) < 2 or not len(queries):
        return None
    inputs, cosine = images.inputs(rows, queries), distance == "cosine"
    mapped = cosine and inputs.self_search and len(rows) <= LANDMARKS and rows.shape[1] <= _SHORT
    k = min(NEIGHBOURS if mapped else NEAREST, len(gallery) - bool((inputs.query_ids >= 0).any()))
    edges = _edges(inputs) if cosine else None
    positions, values, first_right, counts = _scan(inputs, k, edges, distance)
    # cosines as computed; others are computed again, since a block holds only numbers that sort like them
    near = values.clip(-1, 1) if cosine else similarities(inputs, positions, distance).astype(np.float32)
    plain = (queries, gallery[positions[:, :NEAREST]], near[:, :NEAREST], first_right)
    if edges is None:
        return SearchResult(*plain)
    above = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, ::-1]
    nearby = Near(positions, np.maximum(2 - 2 * values, 0)) if mapped else None
    return SearchResult(*plain, edges, above[0, :, 1:], above[1, :, 1:], above[:, :, 0], nearby)


def _scan(inputs: Inputs, k: int, edges: Array | None, distance: str) -> tuple[Array, Array, Array, Array]:
    """Positions and values (queries, k) of the nearest images, ranks of the first right ones (queries,), and pairs of
    the same and of other classes (2, classes, bins), bin 0 below all edges. A block of queries at a time."""
    arranged = arrange(inputs, distance=distance)
    similarity, columns, count = DenseSimilarities(arranged), arranged.gallery_order, len(inputs.query)
    positions, values = np.zeros((count, k), np.int64), np.zeros((count, k), np.float32)
    first_right = np.zeros(count, np.int64)
    counts = np.zeros((2, len(inputs.classes), 0 if edges is None else EDGES + 1), np.int64)
    low, width = (0.0, 1.0) if edges is None else (float(edges[0]), float(edges[1] - edges[0]))
    step = queries_at_once(similarity.columns)
    for top in range(0, count, step):
        part = slice(top, min(top + step, count))
        near = similarity.rows(part.start, part.stop).numpy()
        block, kind = arranged.query_order[part], near.dtype.type
        images, best = np.empty((len(block), k), np.int64), np.empty((len(block), k), near.dtype)
        ranks, codes = np.empty(len(block), np.int64), inputs.query_codes[block]
        of_lines = arranged.first[part], arranged.last[part], arranged.itself[part], codes
        _scan_lines(near, *of_lines, columns, kind(low), kind(width), images, best, ranks, *counts)
        positions[block], values[block], first_right[block] = images, best, ranks
    counts[1] -= counts[0]  # of all pairs, those of other classes
    return positions, values, first_right, counts


def _edges(inputs: Inputs) -> Array:
    """Evenly spaced thresholds over the similarities that occur, found by a few queries."""
    chosen = np.unique(np.linspace(0, len(inputs.query) - 1, _SAMPLE).astype(np.int64))
    every = max(1, len(inputs.gallery) // 4096)
    rows, others = unit_rows(inputs.query[chosen]), unit_rows(inputs.gallery[::every])
    low = float(np.quantile(rows @ others.T, 0.001))
    return np.linspace(min(low, 0.98), 1.0, EDGES + 1)[:-1]


@compiled
def _scan_lines(
    values: Array,
    first: Array,
    last: Array,
    own: Array,
    codes: Array,
    order: Array,
    low: float,
    width: float,
    images: Array,
    near: Array,
    first_right: Array,
    same: Array,
    every: Array,
) -> None:
    """Nearest images, rank of the first right one, and pairs by bin, of each line of `values`; columns are by class.

    The right images of a line are the columns `first` to `last` without `own`, the query itself (-1: none); ties are
    broken by `order`, the images of the columns. Sets `images`, `near` and `first_right`; adds to `same` and
    `every` (classes, bins), at the class in `codes`. No bins: no pairs are counted.
    """
    k, bins = images.shape[1], every.shape[1]
    number = np.empty(values.shape[1], np.int32)
    for line in range(len(values)):
        row, mine = values[line], own[line]
        if mine >= 0:
            row[mine] = -np.inf
        if bins:
            _bins(row, low, width, bins, number)
            _add(number, every[codes[line]])
            _add(number[first[line] : last[line]], same[codes[line]])
            if mine >= 0:
                every[codes[line], 0] -= 1
                if first[line] <= mine < last[line]:
                    same[codes[line], 0] -= 1
        _nearest(row, order, k, images[line], near[line])
        first_right[line] = _first_right(row, order, first[line], last[line], mine, near[line])


@compiled
def _bins(row: Array, low: float, width: float, bins: int, out: Array) -> None:
    """The bin of each value: 0 below `low`, then one for each `width`."""
    for column in range(len(row)):
        step = np.floor((row[column] - low) / width) + 1
        out[column] = np.int32(min(max(step, 0), bins - 1))


@compiled
def _add(numbers: Array, counts: Array) -> None:
    for number in numbers:
        counts[number] += 1


@compiled
def _nearest(row: Array, order: Array, k: int, images: Array, near: Array) -> None:
    """The k largest values in order, tied ones by `order`; by insertion, which is seldom needed."""
    filled, worst = 0, row[0]
    for column in range(len(row)):
        value = row[column]
        if filled == k and (value < worst or (value == worst and order[column] > images[k - 1])):
            continue
        filled = min(filled + 1, k)
        at = filled - 1
        while at > 0 and (near[at - 1] < value or (near[at - 1] == value and images[at - 1] > order[column])):
            near[at], images[at] = near[at - 1], images[at - 1]
            at -= 1
        near[at], images[at] = value, order[column]
        worst = near[filled - 1]


@compiled
def _first_right(row: Array, order: Array, first: int, last: int, own: int, near: Array) -> int:
    """The rank of the nearest right image; 0: there is none."""
    best, image = -np.inf, -1
    for column in range(first, last):
        if column != own and (image < 0 or row[column] > best or (row[column] == best and order[column] < image)):
            best, image = row[column], order[column]
    if image < 0:
        return 0
    nearer, tied = 0, 0
    if best > near[-1]:
        for value in near:
            nearer += value > best
            tied += value == best
    else:
        for value in row:
            nearer += value > best
            tied += value == best
    if tied > 1:
        for column in range(len(row)):
            nearer += row[column] == best and order[column] < image
    return nearer + 1
