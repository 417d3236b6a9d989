"""Exact nearest gallery rows of each query, computed on demand, a few queries at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.arrangement import arrange
from levelfield.evaluation.search.distances import unit_rows
from levelfield.evaluation.search.torch_rows import Panels, lines

_ENTRIES = 2**21  # float64 values at a time when similarities are computed


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

    >>> from levelfield.evaluation.inputs import check_inputs
    >>> found = neighbours(check_inputs([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [0, 0, 1]), 1, distance="cosine")
    >>> found.positions.ravel(), found.similarities.ravel()
    (array([2, 2, 1]), array([0.6, 0.8, 0.8]))
    """
    most = len(inputs.gallery) - bool((inputs.query_ids >= 0).any())
    if not 1 <= k <= most:
        raise BadSpecification(f"k={k}: the number of neighbours must be 1 to {most}.")
    positions = np.empty((len(inputs.query), k), np.int64)
    for queries, values in panels_of(inputs, distance=distance):
        own = torch.from_numpy(inputs.query_ids[queries]).to(values.device)
        present = (own >= 0).nonzero(as_tuple=True)[0]
        values[present, own[present]] = -torch.inf
        positions[queries] = largest(values, k).cpu().numpy()
    return Neighbours(positions, similarities(inputs, positions, distance))


def panels_of(inputs: Inputs, *, distance: str) -> Iterator[tuple[Array, Tensor]]:
    """Yield blocks of queries with `[queries, gallery]`, their similarities up to a constant per query.

    Larger is nearer; equal gallery rows have equal values. The tensor may be modified.
    """
    arranged = arrange(inputs, distance=distance)
    panels = Panels(arranged, inputs.device)
    back = torch.from_numpy(np.argsort(arranged.gallery_order)).to(panels.gallery.device)
    for top in range(0, len(inputs.query), lines(panels.columns)):
        queries = arranged.query_order[top : top + lines(panels.columns)]
        yield queries, panels.of(top, top + len(queries)).index_select(1, back)


def largest(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest values of each row, in order; the first of tied values, any of those at -inf."""
    best, found = values.topk(k, dim=1)
    found, order = found.sort(dim=1)  # by position, then stably by value
    order = best.gather(1, order).sort(dim=1, descending=True, stable=True).indices
    found = found.gather(1, order)
    # If more rows are tied with the last one than fit, `topk` returns any of them.
    crowded = ((values >= best[:, -1:]).sum(dim=1) > k).logical_and_(best[:, -1] > -torch.inf)
    crowded = crowded.nonzero(as_tuple=True)[0]
    if len(crowded):
        found[crowded] = values[crowded].sort(dim=1, descending=True, stable=True).indices[:, :k]
    return found


def similarities(inputs: Inputs, positions: Array, distance: str) -> Array:
    """Similarities of each query to the gallery rows at `positions` `[queries, k]`, in float64."""
    result = np.empty(positions.shape)
    step = max(_ENTRIES // (positions.shape[1] * inputs.query.shape[1]), 1)
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        asked, found = inputs.query[part].astype(np.float64), inputs.gallery[positions[part].reshape(-1)]
        found = found.astype(np.float64)
        if distance == "cosine":
            asked, found = unit_rows(asked), unit_rows(found)
        asked, found = asked[:, None], found.reshape(*positions[part].shape, -1)
        if distance == "hamming":
            result[part] = -((asked > 0) != (found > 0)).sum(axis=2)
        elif distance == "euclidean":
            result[part] = -np.sqrt(np.square(asked - found).sum(axis=2))
        else:
            result[part] = (asked * found).sum(axis=2)
    return result
