"""Dense search in plain torch: whole rows of the similarity matrix, a few queries at a time.

Nearest neighbours are computed here; ranks of positives on GPUs and without numba. Slower than the blocked search on a
CPU, but it makes no assumption about the matrix library: both sides of every comparison come from one product, and rows
with the same bits are tied for every query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.arrangement import Arrangement, Counts, arrange, empty_counts
from levelfield.evaluation.search.distances import paired_similarities, unit_rows
from levelfield.evaluation.search.order import first_twins
from levelfield.evaluation.search.products import TILE, in_tiles
from levelfield.geometry import tf32
from levelfield.progress import SILENT_STAGE, Stage

_ENTRIES = 2**22  # similarities at a time, if they are of more than one tile of queries
_SORTED = 2**18  # entries sorted at a time, at least one row
_PER_ENTRY = 100  # bytes for sorting, if every row is a positive
_IN_FLOAT64 = 2**21  # numbers at a time when similarities are computed again


class DenseSimilarities:
    """Similarities of a few queries to the whole gallery, on one device."""

    def __init__(self, arranged: Arrangement, device: torch.device | None = None) -> None:
        device = device or torch.device("cpu")
        self.gallery = torch.from_numpy(arranged.gallery).to(device)
        self.query = self.gallery if arranged.symmetric else torch.from_numpy(arranged.query).to(device)
        self.offset = None if arranged.offset is None else torch.from_numpy(arranged.offset).to(device)
        self.columns = len(arranged.gallery_order)
        twins = first_twins(arranged.gallery[: self.columns])
        copies = np.flatnonzero(twins != np.arange(self.columns))
        self.copies, self.originals = (torch.from_numpy(rows).to(device) for rows in (copies, twins[copies]))

    def rows(self, top: int, bottom: int) -> Tensor:
        """`[bottom - top, gallery]`, a new tensor; `top` is a multiple of TILE."""
        with tf32(False):
            values = self.query[top : top + in_tiles(bottom - top)] @ self.gallery.T
        if self.offset is not None:
            values -= self.offset
        values = values[: bottom - top, : self.columns]
        for part in values.split(rows_sorted(self.columns)):
            part[:, self.copies] = part[:, self.originals]
        return values


def queries_at_once(gallery: int) -> int:
    """Queries whose similarities are computed at a time: whole tiles, at least one."""
    return max(_ENTRIES // gallery // TILE, 1) * TILE


def rows_sorted(gallery: int) -> int:
    """Rows sorted at a time: their memory is small compared with that of all rows."""
    return max(_SORTED // gallery, 1)


def dense_bytes(gallery: int, bytes_each: int) -> int:
    """Most memory of similarities and of their sorted rows."""
    return queries_at_once(gallery) * in_tiles(gallery) * bytes_each + rows_sorted(gallery) * gallery * _PER_ENTRY


def dense_counts(
    arranged: Arrangement,
    reach: Array,
    begin: int,
    end: int,
    *,
    device: torch.device | None = None,
    stage: Stage = SILENT_STAGE,
) -> Counts:
    """Counts of the queries from `begin` (a multiple of TILE) to `end`."""
    counts = empty_counts(arranged.positives[begin:end], reach[begin:end], arranged.query.dtype, begin)
    computed = DenseSimilarities(arranged, device)
    step = queries_at_once(computed.columns)
    for top in range(begin, end, step):
        bottom, line = min(top + step, end), top
        for values in computed.rows(top, bottom).split(rows_sorted(computed.columns)):
            part = slice(line, line + len(values))
            positives = (arranged.first[part], arranged.last[part], arranged.itself[part])
            numbers = _count(values, *(torch.from_numpy(columns).to(values.device) for columns in positives))
            line, flat = part.stop, slice(counts.starts[part.start - begin], counts.starts[part.stop - begin])
            for whole, part_values in zip((counts.near, counts.above, counts.level), numbers, strict=True):
                whole[flat] = part_values.cpu().numpy()
        stage.advance((bottom - top) * len(arranged.gallery_order))
    return counts


def _count(similarity: Tensor, first: Tensor, last: Tensor, itself: Tensor) -> Iterator[Tensor]:
    """Near, above and level of each positive, flat. Consumes `similarity`: positives and the query are removed."""
    columns = similarity.shape[1]
    steps = torch.arange(int((last - first).max()), device=similarity.device)
    positions = first[:, None] + steps
    real = (positions < last[:, None]) & (positions != itself[:, None])
    positions = positions.clamp(max=columns - 1)
    near = similarity.gather(1, positions).masked_fill(~real, -torch.inf).sort(dim=1, descending=True).values
    line, slot = real.nonzero(as_tuple=True)
    similarity[line, positions[line, slot]] = -torch.inf
    present = (itself >= 0).nonzero(as_tuple=True)[0]
    similarity[present, itself[present]] = -torch.inf
    others = similarity.sort(dim=1).values
    not_above = torch.searchsorted(others, near, right=True)
    below = torch.searchsorted(others, near)
    filled = steps < real.sum(dim=1, keepdim=True)
    return (values[filled] for values in (near, columns - not_above, not_above - below))


@dataclass(frozen=True)
class Neighbours:
    """Positions in the gallery and similarities, both `[queries, k]`, nearest first.

    Similarities are recomputed in float64: cosine, inner product, minus the Euclidean distance, or minus the number of
    different bits.
    """

    positions: Array
    similarities: Array


def neighbours(inputs: Inputs, k: int, *, distance: str) -> Neighbours:
    """The k nearest rows of each query, itself excluded by id; tied rows in gallery order.

    Memory: a copy of the rows, and the result.
    """
    most = len(inputs.gallery) - bool((inputs.query_ids >= 0).any())
    if not 1 <= k <= most:
        raise BadSpecification(f"k={k}: the number of neighbours must be 1 to {most}.")
    positions = np.empty((len(inputs.query), k), np.int64)
    for queries, values in similarity_blocks(inputs, distance=distance):
        itself = torch.from_numpy(inputs.query_ids[queries]).to(values.device)
        present = (itself >= 0).nonzero(as_tuple=True)[0]
        values[present, itself[present]] = -torch.inf
        positions[queries] = largest(values, k).cpu().numpy()
    return Neighbours(positions, similarities(inputs, positions, distance))


def similarity_blocks(inputs: Inputs, *, distance: str) -> Iterator[tuple[Array, Tensor]]:
    """Yield blocks of queries with `[queries, gallery]`, their similarities up to a constant per query.

    Larger is nearer; equal gallery rows have equal values. The tensor may be modified.
    """
    arranged = arrange(inputs, distance=distance)
    computed = DenseSimilarities(arranged, inputs.device)
    back = torch.from_numpy(np.argsort(arranged.gallery_order)).to(computed.gallery.device)
    step = queries_at_once(computed.columns)
    for top in range(0, len(inputs.query), step):
        queries = arranged.query_order[top : top + step]
        yield queries, computed.rows(top, top + len(queries)).index_select(1, back)


def largest(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest values of each row, in order; the first of tied values, any of those at -inf."""
    best, positions = values.topk(k, dim=1)
    positions, order = positions.sort(dim=1)  # by position, then stably by value
    order = best.gather(1, order).sort(dim=1, descending=True, stable=True).indices
    positions = positions.gather(1, order)
    # If more rows are tied with the last one than fit, `topk` returns any of them.
    crowded = ((values >= best[:, -1:]).sum(dim=1) > k).logical_and_(best[:, -1] > -torch.inf)
    crowded = crowded.nonzero(as_tuple=True)[0]
    if len(crowded):
        positions[crowded] = values[crowded].sort(dim=1, descending=True, stable=True).indices[:, :k]
    return positions


def similarities(inputs: Inputs, positions: Array, distance: str) -> Array:
    """Similarities of each query to the gallery rows at `positions` `[queries, k]`, in float64."""
    result = np.empty(positions.shape)
    step = max(_IN_FLOAT64 // (positions.shape[1] * inputs.query.shape[1]), 1)
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        query = inputs.query[part].astype(np.float64)
        near = inputs.gallery[positions[part].reshape(-1)].astype(np.float64)
        if distance == "cosine":
            query, near = unit_rows(query), unit_rows(near)
        near = near.reshape(*positions[part].shape, -1)
        result[part] = paired_similarities(query[:, None], near, distance=distance)
    return result
