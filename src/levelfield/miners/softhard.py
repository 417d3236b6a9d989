"""Positives farther than the nearest negative, negatives nearer than the farthest positive."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_table, hide_
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_negative_between, draw_uniform, no_triplets, one_each


@register(
    "softhard",
    MinerFacts(
        paper="Roth & Brattoli 2019; roth2020 eq. 21-22",
        rule="p uniform in {d_ap > min_n d_an}, n uniform in {d_an < max_p d_ap}; from all if there is none",
        random=True,
    ),
)
@dataclass(frozen=True)
class Softhard(BaseMiner):
    """One triplet per anchor, both partners drawn among the hard ones, independently.

    >>> line = Geometry(torch.tensor([[0.0], [2.0], [1.0]]), normalize=False)
    >>> Softhard()(line, torch.tensor([0, 0, 1])).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """

    one_per_anchor = True

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        if not len(labels):
            return no_triplets(labels)
        table, distance = class_table(labels, len(geometry.rows)), geometry.distance.detach()
        near = distance.gather(1, table.others)
        farthest_positive = torch.where(table.valid, near, -torch.inf).amax(1, keepdim=True)
        nearest_negative = hide_(distance.clone(), table, torch.inf).amin(1, keepdim=True)
        hard = table.valid & (near > nearest_negative)
        column = draw_uniform(torch.where(hard.any(1, keepdim=True), hard, table.valid), generator)
        chosen_p = table.others.gather(1, column[:, None]).squeeze(1)
        return one_each(table, chosen_p, draw_negative_between(distance, table, None, farthest_positive, generator))
