"""Queries and gallery in the order of their classes: the positives of a query are neighbours in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.evaluation.inputs import Array, Inputs
from levelfield.evaluation.search.distances import Chosen, prepare
from levelfield.evaluation.search.order import class_order
from levelfield.evaluation.search.products import in_tiles


@dataclass(frozen=True)
class Arrangement:
    """Prepared rows sorted by class, filled up to whole tiles (see `distances.Prepared` for `offset`).

    The positives of query i are the gallery rows `first[i]` to `last[i]` without `own[i]`, the row that is the query
    itself (-1: none). `query_order[i]` and `gallery_order[j]` say which of the caller's rows they are.
    """

    query: Array
    gallery: Array
    offset: Array | None
    query_order: Array
    gallery_order: Array
    first: Array
    last: Array
    own: Array
    symmetric: bool  # every query is a gallery row, and the other way round

    @property
    def positives(self) -> Array:
        """How many each query has (R)."""
        return self.last - self.first - ((self.own >= self.first) & (self.own < self.last))


def arrange(inputs: Inputs, *, distance: str) -> Arrangement:
    """The one copy of the rows that the search works on."""
    columns = class_order(inputs.gallery, inputs.gallery_codes)
    gallery = Chosen(inputs.gallery, columns, in_tiles(len(columns)))
    order, query = columns, gallery
    if not inputs.self_search:
        order = class_order(inputs.query, inputs.query_codes)
        query = Chosen(inputs.query, order, in_tiles(len(order)))
    ready = prepare(query, gallery, distance=distance)
    codes, asked = inputs.gallery_codes[columns], inputs.query_codes[order]
    place = np.full(len(columns) + 1, -1)  # the last entry answers for id -1: no place
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
