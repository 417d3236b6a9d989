"""The rho-regularisation of roth2020 (`p_switch`): occasionally push samples of one class apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.labels import class_masks, to_device
from levelfield.miners._contract import BaseMiner, Miner
from levelfield.miners._draws import draw_uniform, drawn_uniforms, in_widest
from levelfield.settings import Share


def switch_triplets(
    triplets: Tensor,
    own_class: Tensor,
    uniform: Tensor,
    *,
    switch: float,
    positive: Literal["anchor", "keep"] = "anchor",
) -> Tensor:
    """Replace row t by (a, a, own_class[t]) where uniform[t] < switch; with `keep` the positive is kept.

    >>> drawn = torch.tensor([[0, 1, 2], [1, 0, 2]])
    >>> switch_triplets(drawn, torch.tensor([1, 0]), torch.tensor([0.9, 0.1]), switch=0.4).tolist()
    [[0, 1, 2], [1, 1, 0]]
    """
    anchors, positives, _ = triplets.T
    changed = torch.stack((anchors, anchors if positive == "anchor" else positives, own_class), 1)
    return torch.where((uniform < switch)[:, None], changed, triplets)


@dataclass(frozen=True)
class Switched(BaseMiner):
    """With probability `switch` a tuple (a, p, n) of `miner` becomes (a, a, another sample of a's class).

    The plain tuples are drawn first, so those that are not switched are the same for every `switch`.

    >>> from levelfield.miners import create
    >>> create("random", switch=1.0)(torch.eye(3), torch.tensor([0, 0, 1])).tolist()
    [[0, 0, 1], [1, 1, 0]]
    """

    miner: Miner
    switch: Share

    def __post_init__(self) -> None:
        super().__post_init__()
        if not getattr(self.miner, "one_per_anchor", False):
            raise BadSpecification(f"'switch' needs a miner with one triplet per anchor; {self.miner} has more.")

    one_per_anchor = True

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        triplets = self.miner(geometry, labels, generator=generator)
        assert isinstance(triplets, Tensor)  # guaranteed by one_per_anchor
        if not len(triplets):
            return triplets
        uniform, own_class = drawn_uniforms(len(triplets), generator), triplets[:, 0].clone()
        rows = to_device((uniform < self.switch).nonzero()[:, 0], triplets.device)
        if len(rows):
            positive, _ = class_masks(labels, len(geometry.rows))
            own_class[rows] = draw_uniform(positive.index_select(0, own_class[rows]), generator)
        return switch_triplets(triplets, own_class, in_widest(uniform, triplets.device), switch=self.switch)
