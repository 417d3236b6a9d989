"""The hardest triplet of every anchor: its farthest positive and its nearest negative."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_table, hide_
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import no_triplets, one_each


@register(
    "batch_hard",
    MinerFacts(
        paper="Hermans et al. 2017, eq. 5",
        rule="p = argmax_{p in P(a)} d_ap, n = argmin_{n in N(a)} d_an; ties: the lowest index",
    ),
)
@dataclass(frozen=True)
class BatchHard(BaseMiner):
    """One triplet per anchor with a positive and a negative: the farthest positive, the nearest negative. Not random.

    Ties go to the lowest index. Squaring the distances changes nothing. Hermans et al. compare raw rows: pass a
    `Geometry(embeddings, normalize=False)` for that. Memory: O(n^2).

    >>> line = torch.tensor([[0.0], [2.0], [1.0], [5.0]])
    >>> BatchHard()(Geometry(line, normalize=False), torch.tensor([0, 0, 1, 1])).tolist()
    [[0, 1, 2], [1, 0, 2], [2, 3, 0], [3, 2, 1]]
    """

    one_per_anchor = True

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        if not len(labels):
            return no_triplets(labels)
        table, distance = class_table(labels, len(geometry.rows)), geometry.distance.detach()
        # argmax and argmin return the first of ties, and a NaN distance wins, so that it shows in the loss
        column = torch.where(table.valid, distance.gather(1, table.others), -torch.inf).argmax(1)
        farthest_positive = table.others.gather(1, column[:, None]).squeeze(1)
        nearest_negative = hide_(distance.clone(), table, torch.inf).argmin(1)
        return one_each(table, farthest_positive, nearest_negative)
