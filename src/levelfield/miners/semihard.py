"""Negatives slightly farther away than the positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_masks, class_table, hide_, positive_pairs, row_blocks
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_negative_between, draw_positive, no_triplets, one_each, select_rows


@register(
    "semihard",
    MinerFacts(
        paper="Schroff et al. 2015; modes: roth2020 (random), fehervari2019 and TensorFlow (closest), PML (all)",
        rule="d_ap < d_an < d_ap + margin",
        random=True,
        search={"mode": ["random", "closest", "all"]},
        sources={"margin": "roth2020 A.1: the triplet objective's margin", "mode": "roth2020 code"},
    ),
)
@dataclass(frozen=True)
class Semihard(BaseMiner):
    """`random`: one uniform positive per anchor, then a uniform semi-hard negative (any negative if there is none).

    `closest`: for every positive pair the nearest negative beyond it (the farthest of all if there is none).
    `all`: every triplet with 0 < d_an - d_ap <= margin. `margin=None` removes the upper bound.

    >>> line = Geometry(torch.tensor([[0.0], [1.0], [1.1], [9.0]]), normalize=False)
    >>> labels = torch.tensor([0, 0, 1, 1])
    >>> Semihard(mode="closest")(line, labels)[:2].tolist()
    [[0, 1, 2], [1, 0, 3]]
    """

    mode: Literal["random", "closest", "all"] = "random"  # roth2020 code
    margin: float | None = 0.2  # roth2020 A.1

    @property
    def one_per_anchor(self) -> bool:
        return self.mode == "random"

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        distance = geometry.distance.detach()
        if self.mode == "all":
            return self._all(distance, labels)
        table = class_table(labels, len(geometry.rows))
        if self.mode == "closest":
            return _closest(distance, table)
        chosen_p = draw_positive(table, generator)
        low = distance.gather(1, chosen_p[:, None])
        high = None if self.margin is None else low + self.margin
        return one_each(table, chosen_p, draw_negative_between(distance, table, low, high, generator))

    def _all(self, distance: Tensor, labels: Tensor) -> Tensor:
        blocks = [no_triplets(labels)]
        _, negative = class_masks(labels, len(distance))
        # blocks of pairs, so that masks are no larger than the distance matrix
        for block in positive_pairs(labels, len(distance)).split(len(distance)):
            anchor, other = block.T
            beyond = distance.index_select(0, anchor) - distance[anchor, other][:, None]
            # keep a triplet unless the comparison fails, so that NaN shows in the loss
            keep = negative.index_select(0, anchor) & ~(beyond <= 0)
            if self.margin is not None:
                keep &= ~(beyond > self.margin)
            pair, chosen_n = keep.nonzero(as_tuple=True)
            blocks.append(torch.column_stack((block.index_select(0, pair), chosen_n)))
        return torch.cat(blocks)


def _closest(distance: Tensor, table: ClassTable) -> Tensor:
    """One pass over the negatives for each positive. Ties go to the lowest index."""
    near = distance.gather(1, table.others)
    chosen = torch.empty_like(table.others)
    for rows in row_blocks(distance):
        farthest = hide_(distance[rows].clone(), table, -torch.inf, rows).argmax(1)
        negatives = hide_(distance[rows].clone(), table, torch.inf, rows)
        for k in range(near.shape[1]):
            beyond = negatives.masked_fill(negatives <= near[rows, k : k + 1], torch.inf)
            index = beyond.argmin(1, keepdim=True)
            chosen[rows, k] = torch.where(beyond.gather(1, index) < torch.inf, index, farthest[:, None])[:, 0]
    anchors = torch.arange(len(distance), device=distance.device)[:, None].expand_as(chosen)
    host = table.on_host
    usable = host.valid & (host.counts < len(host.order) - 1)[:, None]
    return select_rows(torch.stack((anchors, table.others, chosen), 2).view(-1, 3), usable.view(-1))
