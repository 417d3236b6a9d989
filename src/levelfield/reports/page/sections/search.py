"""One pass over all queries of a method: nearest images, rank of the first right one, and pairs by similarity.

The search is exact, in blocks; a query never finds itself. Memory: a copy of the embeddings, one block, the result.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.evaluation.inputs import Inputs, check_inputs
from levelfield.evaluation.search.arrangement import Arrangement, arrange
from levelfield.evaluation.search.distances import unit_rows
from levelfield.evaluation.search.neighbours import largest, panels_of, similarities
from levelfield.evaluation.search.torch_rows import Panels, lines
from levelfield.randomness import numpy_stream
from levelfield.reports.embedding_map import LANDMARKS
from levelfield.reports.page.data import Array
from levelfield.reports.page.images import ImageSet
from levelfield.reports.tsne import NEIGHBOURS, Near

NEAREST = 16  # neighbours of each query
MOST_SEARCHED = 20_000  # queries of one method; a larger test set is searched for a random part of its queries
EDGES = 96  # thresholds of the error curves
# Dimensions of rows whose neighbours are also those of the map. With 3,840, a map is more faithful if its neighbours
# are found among 50 principal components (trustworthiness 0.972, otherwise 0.962); with 128 there is no difference.
_SHORT = 128
_SAMPLE = 256  # queries that find the range of the thresholds


@dataclass(frozen=True, eq=False)
class Found:
    """queries: those searched, ascending; neighbours and similarity: (queries, k), as numbers of images.

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


def search(rows: Array, images: ImageSet, *, distance: str = "cosine") -> Found | None:
    """Search the test embeddings (images, dim) of one method; None if there are fewer than two images to compare."""
    queries, gallery = searched(images), images.gallery
    if len(gallery) < 2 or not len(queries):
        return None
    inputs = _inputs(rows, images, queries, gallery)
    cosine, compiled = distance == "cosine", importlib.util.find_spec("numba") is not None
    mapped = compiled and cosine and inputs.self_search and len(rows) <= LANDMARKS and rows.shape[1] <= _SHORT
    k = min(NEIGHBOURS if mapped else NEAREST, len(gallery) - bool((inputs.query_ids >= 0).any()))
    found = _Pass(inputs, queries, k, with_pairs=cosine)
    if compiled:
        found.scan(arrange(inputs, distance=distance))
    else:
        for block, values in panels_of(inputs, distance=distance):
            found.take(block, values)
    return found.result(gallery, distance, mapped=mapped)


def _inputs(rows: Array, images: ImageSet, queries: Array, gallery: Array) -> Inputs:
    if len(queries) == len(gallery) == len(rows):
        return check_inputs(rows, images.codes)
    place = np.full(len(rows), -1)
    place[gallery] = np.arange(len(gallery))
    all_of_them = rows if len(gallery) == len(rows) else rows[gallery]
    return check_inputs(
        rows[queries],
        images.codes[queries],
        gallery=all_of_them,
        gallery_labels=images.codes[gallery],
        query_ids=place[queries],
    )


class _Pass:
    """Collects what each block of similarities says."""

    def __init__(self, inputs: Inputs, queries: Array, k: int, *, with_pairs: bool) -> None:
        self.inputs, self.queries, self.k = inputs, queries, k
        self.codes = torch.from_numpy(inputs.gallery_codes)
        self.positions = np.zeros((len(queries), k), np.int64)
        self.values = np.zeros((len(queries), k), np.float32)
        self.first_right = np.zeros(len(queries), np.int64)
        self.edges = _edges(inputs) if with_pairs else None
        self.counts = np.zeros((2, len(inputs.classes), EDGES + 1), np.int64)  # bin 0: below all edges

    def scan(self, arranged: Arrangement) -> None:
        """Search all blocks by the compiled loop, several times as fast as `take`."""
        from levelfield.reports.page.sections.search_kernels import scan

        panels, columns, tables = Panels(arranged), arranged.gallery_order, self.counts
        if self.edges is None:
            tables, low, width = tables[:, :, :0], 0.0, 1.0
        else:
            low, width = float(self.edges[0]), float(self.edges[1] - self.edges[0])
        for top in range(0, len(self.queries), lines(panels.columns)):
            part = slice(top, min(top + lines(panels.columns), len(self.queries)))
            values = panels.of(part.start, part.stop).numpy()
            block, kind = arranged.query_order[part], values.dtype.type
            found, near = np.empty((len(block), self.k), np.int64), np.empty((len(block), self.k), values.dtype)
            ranks, codes = np.empty(len(block), np.int64), self.inputs.query_codes[block]
            of_lines = arranged.first[part], arranged.last[part], arranged.own[part], codes
            scan(values, *of_lines, columns, kind(low), kind(width), found, near, ranks, *tables)
            self.positions[block], self.values[block], self.first_right[block] = found, near, ranks
        self.counts[1] -= self.counts[0]

    def take(self, block: Array, values: Tensor) -> None:
        own = torch.from_numpy(self.inputs.query_ids[block])
        present = (own >= 0).nonzero(as_tuple=True)[0]
        values[present, own[present]] = -torch.inf
        codes = torch.from_numpy(self.inputs.query_codes[block])
        found = largest(values, self.k)
        self.positions[block] = found.numpy()
        self.values[block] = values.gather(1, found).numpy()
        self.first_right[block] = self._first_right(values, found, codes)
        if self.edges is not None:
            self._count(values, codes)

    def _first_right(self, values: Tensor, found: Tensor, codes: Tensor) -> Array:
        """Ranks within the k nearest, and by counting for queries whose nearest images are all of other classes."""
        hits = self.codes[found] == codes[:, None]
        rank = torch.where(hits.any(1), hits.int().argmax(1) + 1, 0)
        late = (~hits.any(1)).nonzero(as_tuple=True)[0]
        for part in late.split(256):
            here = values[part]
            right = torch.where(self.codes == codes[part, None], here, -torch.inf)
            best, place = right.max(1, keepdim=True)
            tied = (here == best) & (torch.arange(here.shape[1]) < place)
            nearer = (here > best).sum(1) + tied.sum(1)
            rank[part] = torch.where(best[:, 0] > -torch.inf, nearer + 1, 0)
        return rank.numpy()

    def _count(self, values: Tensor, codes: Tensor) -> None:
        """Add the pairs of a block by class of the query and bin."""
        assert self.edges is not None
        low, width = float(self.edges[0]), float(self.edges[1] - self.edges[0])
        bins = values.sub(low).div_(width).floor_().add_(1).clamp_(0, EDGES).to(torch.int32)
        lines = torch.arange(len(values), dtype=torch.int32)[:, None] * (EDGES + 1)
        shape = (len(values), EDGES + 1)
        every = torch.bincount((bins + lines).view(-1), minlength=shape[0] * shape[1]).view(shape)
        own = (self.codes == codes[:, None]) & (values > -torch.inf)
        line, column = own.nonzero(as_tuple=True)
        same = torch.bincount(line * shape[1] + bins[line, column], minlength=shape[0] * shape[1]).view(shape)
        every[:, 0] -= (values == -torch.inf).sum(1)  # the query itself
        for table, part in zip(self.counts, (same, every - same), strict=True):
            np.add.at(table, codes.numpy(), part.numpy())

    def result(self, gallery: Array, distance: str, *, mapped: bool) -> Found:
        positions, near = gallery[self.positions[:, :NEAREST]], self.similarities(distance)[:, :NEAREST]
        plain = (self.queries, positions, near, self.first_right)
        if self.edges is None:
            return Found(*plain)
        above = np.cumsum(self.counts[:, :, ::-1], axis=2)[:, :, ::-1]
        nearby = Near(self.positions, np.maximum(2 - 2 * self.values, 0)) if mapped else None
        return Found(*plain, self.edges, above[0, :, 1:], above[1, :, 1:], above[:, :, 0], nearby)

    def similarities(self, distance: str) -> Array:
        """Cosines as computed; others are computed again, since a block holds only numbers that sort like them."""
        if distance == "cosine":
            return self.values.clip(-1, 1)
        return similarities(self.inputs, self.positions, distance).astype(np.float32)


def _edges(inputs: Inputs) -> Array:
    """Evenly spaced thresholds over the similarities that occur, found by a few queries."""
    chosen = np.unique(np.linspace(0, len(inputs.query) - 1, _SAMPLE).astype(np.int64))
    every = max(1, len(inputs.gallery) // 4096)
    rows, others = unit_rows(inputs.query[chosen]), unit_rows(inputs.gallery[::every])
    low = float(np.quantile(rows @ others.T, 0.001))
    return np.linspace(min(low, 0.98), 1.0, EDGES + 1)[:-1]
