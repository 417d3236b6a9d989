"""One pass over all queries of a method: nearest images, rank of the first right one, and pairs by similarity.

The search is exact, in blocks; a query never finds itself. Memory: a copy of the embeddings, one block, the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from levelfield.evaluation.inputs import Inputs
from levelfield.evaluation.search.dense import largest, similarities, similarity_blocks
from levelfield.evaluation.search.distances import unit_rows
from levelfield.randomness import numpy_stream
from levelfield.reports.page.content import Array
from levelfield.reports.page.image_set import ImageSet

NEAREST = 16  # neighbours of each query
MOST_SEARCHED = 20_000  # queries of one method; a larger test set is searched for a random part of its queries
EDGES = 96  # thresholds of the error curves
_SAMPLE = 256  # queries that find the range of the thresholds


@dataclass(frozen=True, eq=False)
class EmbeddedRow:
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


def search(rows: Array, images: ImageSet, *, distance: str = "cosine") -> SearchResult | None:
    """Search the test embeddings (images, dim) of one method; None if there are fewer than two images to compare."""
    queries, gallery = images.queries, images.gallery
    if len(queries) > MOST_SEARCHED:  # the same ones for every method
        queries = np.sort(numpy_stream(0, "page", "queries").choice(queries, MOST_SEARCHED, replace=False))
    if len(gallery) < 2 or not len(queries):
        return None
    inputs, cosine = images.inputs(rows, queries), distance == "cosine"
    k = min(NEAREST, len(gallery) - bool((inputs.query_ids >= 0).any()))
    edges = _edges(inputs) if cosine else None
    positions, values, first_right, counts = _scan(inputs, k, edges, distance)
    # cosines as computed; others are computed again, since a block holds only numbers that sort like them
    near = values.clip(-1, 1) if cosine else similarities(inputs, positions, distance).astype(np.float32)
    result = SearchResult(queries, gallery[positions], near, first_right)
    if edges is None:
        return result
    above = np.cumsum(counts[:, :, ::-1], axis=2)[:, :, ::-1]
    return replace(result, edges=edges, same=above[0, :, 1:], other=above[1, :, 1:], pairs=above[:, :, 0])


def _scan(inputs: Inputs, k: int, edges: Array | None, distance: str) -> tuple[Array, Array, Array, Array]:
    """Positions and values (queries, k) of the nearest images, ranks of the first right ones (queries,), and pairs of
    the same and of other classes (2, classes, bins), bin 0 below all edges. A block of queries at a time."""
    count, bins = len(inputs.query), EDGES + 1
    positions, values = np.zeros((count, k), np.int64), np.zeros((count, k), np.float32)
    first_right = np.zeros(count, np.int64)
    counts = np.zeros((2, len(inputs.classes), 0 if edges is None else bins), np.int64)
    members = torch.from_numpy(np.argsort(inputs.gallery_codes, kind="stable"))
    sizes = np.bincount(inputs.gallery_codes, minlength=len(inputs.classes))
    begins, columns = sizes.cumsum() - sizes, torch.arange(len(members))
    for queries, block in similarity_blocks(inputs, distance=distance):
        itself, codes = torch.from_numpy(inputs.query_ids[queries])[:, None], inputs.query_codes[queries]
        present = (itself[:, 0] >= 0).nonzero(as_tuple=True)[0]
        block[present, itself[present, 0]] = -torch.inf
        nearest = largest(block, k)
        positions[queries], values[queries] = nearest.numpy(), block.gather(1, nearest).numpy()
        size, begin = (torch.from_numpy(part[codes])[:, None] for part in (sizes, begins))
        steps = torch.arange(max(1, int(size.max())))
        same = members[(begin + steps).clamp(max=len(members) - 1)]  # the images of the query's class
        real = (steps < size) & (same != itself)
        right = block.gather(1, same).masked_fill(~real, -torch.inf)
        best = right.amax(dim=1, keepdim=True)
        image = same.masked_fill(right < best, len(members)).amin(dim=1, keepdim=True)  # the first of tied ones
        nearer = (block > best).sum(dim=1) + ((block == best) & (columns < image)).sum(dim=1)
        first_right[queries] = torch.where(real.any(dim=1), nearer + 1, 0).numpy()
        if edges is not None:
            number = block.sub_(float(edges[0])).div_(float(edges[1] - edges[0])).floor_().add_(1).clamp_(0, EDGES)
            names, lines = np.unique(codes, return_inverse=True)
            number = number.int().add_(torch.from_numpy(bins * lines.astype(np.int32))[:, None])
            for kind, part in enumerate((number.gather(1, same)[real], number.ravel())):
                counts[kind, names] += torch.bincount(part, minlength=bins * len(names)).numpy().reshape(-1, bins)
            np.subtract.at(counts[1], (codes[present.numpy()], 0), 1)  # a query and itself are no pair
    counts[1] -= counts[0]  # of all pairs, those of other classes
    return positions, values, first_right, counts


def _edges(inputs: Inputs) -> Array:
    """Evenly spaced thresholds over the similarities that occur, found by a few queries."""
    chosen = np.unique(np.linspace(0, len(inputs.query) - 1, _SAMPLE).astype(np.int64))
    every = max(1, len(inputs.gallery) // 4096)
    rows, others = unit_rows(inputs.query[chosen]), unit_rows(inputs.gallery[::every])
    low = float(np.quantile(rows @ others.T, 0.001))
    return np.linspace(min(low, 0.98), 1.0, EDGES + 1)[:-1]
