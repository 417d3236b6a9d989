"""What ranks need of a search: how near the relatives of each query are, and how many others precede them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.evaluation.arrangement import Arrangement
from levelfield.evaluation.inputs import Array

EVERYWHERE = 2**62  # a reach: every relative matters, wherever it stands


@dataclass(frozen=True)
class Counts:
    """The queries from `begin` to `end` of an arrangement, flat: those of query q stand from `starts[q - begin]` on.

    `near` are the similarities to the relatives, nearest first; `above` of the others are nearer, `level` as near.
    Both numbers are right for the first `active` relatives of each query; later ones are beyond its reach.
    Memory: 12 bytes for each pair of query and relative in float32.
    """

    begin: int
    end: int
    starts: Array
    near: Array
    above: Array
    level: Array
    active: Array


def empty_counts(arranged: Arrangement, begin: int, end: int, reach: Array) -> Counts:
    """Nothing counted yet. A relative with as many nearer relatives as the query's reach never matters."""
    relatives = arranged.relatives[begin:end]
    starts = np.concatenate([[0], np.cumsum(relatives)])
    pairs = int(starts[-1])
    return Counts(begin, end, starts, np.empty(pairs, arranged.query.dtype), np.zeros(pairs, np.int32),
                  np.zeros(pairs, np.int32), np.minimum(relatives, np.maximum(reach[begin:end], 1)))
