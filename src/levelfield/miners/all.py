"""Every triplet of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks, on_host, to_device
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import no_triplets


def all_triplets(positive: Tensor, negative: Tensor) -> Tensor:
    """Every (anchor, positive, negative), lexicographic (t, 3).

    >>> all_triplets(*class_masks(torch.tensor([0, 0, 1]))).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    pairs = positive.nonzero()
    # Blocks of as many pairs as there are rows keep each mask no larger than the distance matrix.
    blocks = []
    for block in pairs.split(max(1, len(positive))):
        pair, other = negative.index_select(0, block[:, 0]).nonzero(as_tuple=True)
        blocks.append(torch.column_stack((block.index_select(0, pair), other)))
    return torch.cat(blocks) if blocks else no_triplets(positive)


@register("all", MinerFacts(paper="-", rule="every (a, p, n), p in P(a), n in N(a)"))
@dataclass(frozen=True)
class All(BaseMiner):
    """Every triplet, lexicographic. Objectives with this miner sum over all triplets without listing them.

    >>> labels = torch.tensor([0, 0, 1])
    >>> All()(torch.eye(3), labels).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        return to_device(all_triplets(*class_masks(on_host(labels), len(geometry.rows))), labels.device)
