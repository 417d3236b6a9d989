"""Negatives slightly farther away than the positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import (
    ClassTable,
    class_masks,
    class_table,
    on_host,
    positive_pairs,
    row_blocks,
    to_device,
    without_class_,
)
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_negative_between, draw_positive, even, no_triplets, one_each


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
        if not len(labels):
            return no_triplets(labels)
        distance = geometry.distance.detach()
        if self.mode == "closest":
            table = class_table(on_host(labels), len(geometry.rows))
            few = table.others.shape[1] <= 24 and distance.device.type == "cpu"  # elsewhere ties may go to any index
            return _closest_of_few(distance, table) if few else _closest(distance, labels)
        if self.mode == "all":
            return self._all(distance, labels)
        table = class_table(labels, len(geometry.rows))
        chosen_p = draw_positive(table, generator)
        low = distance.gather(1, chosen_p[:, None])
        high = None if self.margin is None else low + self.margin
        return one_each(table, chosen_p, draw_negative_between(distance, table, low, high, generator))

    def probabilities(self, embeddings: Geometry | Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Mode `random`: `positive` (n, n), `negative_given_positive` (n, n, n), `fallback` (n, n): O(n^3) memory."""
        geometry = self.geometry_of(embeddings, labels)
        positive, negative = class_masks(labels, len(geometry.rows))
        usable = (positive.any(1) & negative.any(1))[:, None]
        pair = positive & usable
        distance = geometry.distance.detach()
        band = self._band(distance[:, None, :], distance[:, :, None], negative[:, None, :]) & pair[:, :, None]
        fallback = pair & ~band.any(2)
        allowed = torch.where(fallback[:, :, None], negative[:, None, :], band)
        return {
            "positive": even(pair, distance.dtype),
            "negative_given_positive": even(allowed, distance.dtype),
            "fallback": fallback.long(),
        }

    def _band(self, to_negative: Tensor, to_positive: Tensor, negative: Tensor) -> Tensor:
        band = negative & (to_negative > to_positive)
        return band if self.margin is None else band & (to_negative < to_positive + self.margin)

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


def _closest_of_few(distance: Tensor, table: ClassTable) -> Tensor:
    """One pass over all negatives per positive. Ties go to the lowest index (on the CPU)."""
    near = distance.gather(1, table.others)
    chosen = torch.empty_like(table.others)
    for rows in row_blocks(distance):
        farthest = without_class_(distance[rows].clone(), table, rows, -torch.inf).argmax(1)
        negatives = without_class_(distance[rows].clone(), table, rows, torch.inf)
        for k in range(near.shape[1]):
            beyond = negatives.masked_fill(negatives <= near[rows, k : k + 1], torch.inf)
            nearest, index = beyond.min(1)
            chosen[rows, k] = torch.where(nearest < torch.inf, index, farthest)
    anchors = torch.arange(len(distance), device=distance.device)[:, None].expand_as(chosen)
    kept = table.valid & (table.counts < len(table.order) - 1)[:, None]
    return torch.stack((anchors, table.others, chosen), 2)[kept]


def _closest(distance: Tensor, labels: Tensor) -> Tensor:
    """One sort per anchor: O(n^2) memory for any class size. Ties go to the lowest index."""
    _, negative = class_masks(labels, len(distance))
    ordered, index = distance.masked_fill(~negative, torch.inf).sort(dim=1, stable=True)
    count = negative.sum(1, keepdim=True)
    last = ordered.gather(1, (count - 1).clamp_min(0))
    farthest = torch.searchsorted(ordered, last)
    beyond = torch.searchsorted(ordered, distance.contiguous(), right=True)
    rank = torch.where(beyond < count, beyond, farthest)
    on_cpu = class_masks(on_host(labels), len(distance))
    pairs = to_device((on_cpu[0] & on_cpu[1].any(1, keepdim=True)).nonzero(), labels.device)
    anchor, other = pairs.T
    return torch.column_stack((pairs, index[anchor, rank[anchor, other]]))
