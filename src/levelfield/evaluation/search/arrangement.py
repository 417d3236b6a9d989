"""Queries and gallery sorted by class, so that the positives of a query are contiguous in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.distances import Chosen, prepare
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles


@dataclass(frozen=True)
class Arrangement:
    """Prepared rows sorted by class, padded to whole tiles (see `distances.Prepared` for `offset`).

    The positives of query i are the gallery rows `first[i]` to `last[i]` without `own[i]`, the row that is the query
    itself (-1: none). `query_order[i]` and `gallery_order[j]` are the positions of the caller's rows.
    """

    query: Array
    gallery: Array
    offset: Array | None
    query_order: Array
    gallery_order: Array
    first: Array
    last: Array
    own: Array
    symmetric: bool  # queries and gallery are the same rows

    @property
    def positives(self) -> Array:
        """Number of positives of each query (R)."""
        return self.last - self.first - ((self.own >= self.first) & (self.own < self.last))


def arrange(inputs: Inputs, *, distance: str) -> Arrangement:
    """Create the copy of the rows that the search uses."""
    columns = class_order(inputs.gallery, inputs.gallery_codes)
    gallery = Chosen(inputs.gallery, columns, in_tiles(len(columns)))
    order, query = columns, gallery
    if not inputs.self_search:
        order = class_order(inputs.query, inputs.query_codes)
        query = Chosen(inputs.query, order, in_tiles(len(order)))
    ready = prepare(query, gallery, distance=distance)
    codes, asked = inputs.gallery_codes[columns], inputs.query_codes[order]
    place = np.full(len(columns) + 1, -1)  # the last entry is for id -1: no position
    place[columns] = np.arange(len(columns))
    return Arrangement(
        ready.query,
        ready.gallery,
        ready.offset,
        order,
        columns,
        np.searchsorted(codes, asked, "left"),
        np.searchsorted(codes, asked, "right"),
        place[inputs.query_ids[order]],
        inputs.self_search,
    )
