"""What a network costs when it is used: weights, and operations for one image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from levelfield.embedder.trunk.trunk import Trunk


@dataclass(frozen=True)
class NetworkCost:
    """weights: of the used stages. operations: multiplications and additions for one image, counted separately."""

    weights: int
    operations: int


def network_cost(trunk: Trunk, image: int) -> NetworkCost:
    """Count the weights of a trunk, and its operations for one image of this side; nothing is timed.

    >>> from levelfield.embedder import backbones
    >>> network_cost(Trunk(backbones.create("resnet18", weights="random"), cut="frozen"), 64).weights
    11176512
    """
    first = next(trunk.parameters())
    blank = torch.zeros(1, 3, image, image, device=first.device)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        trunk.above(*trunk.below(blank))
    return NetworkCost(sum(parameter.numel() for parameter in trunk.parameters()), counter.get_total_flops())
