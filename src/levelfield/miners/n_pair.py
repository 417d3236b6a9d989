"""Pairs for the n-pair and angular losses: one positive per anchor, against all negatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_table, on_host, to_device
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_positive, one_each


@register(
    "n_pair",
    MinerFacts(
        paper="Sohn 2016 in the form of Roth et al. 2020 (roth2020)",
        rule="p uniform in P(a); every n in N(a)",
        returns="pairs (anchor, positive), against all negatives",
        random=True,
    ),
)
@dataclass(frozen=True)
class NPairMiner(BaseMiner):
    """One pair (a, p) per anchor that has a positive and a negative: a tensor (t, 2). Its negatives are all of N(a).

    >>> labels = torch.tensor([0, 0, 1])
    >>> NPairMiner()(torch.eye(3), labels).tolist()
    [[0, 1], [1, 0]]
    """

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        table = class_table(on_host(labels), len(geometry.rows))
        return to_device(one_each(table, draw_positive(table, generator)), labels.device)
