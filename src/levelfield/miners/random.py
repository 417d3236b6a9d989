"""Triplets drawn independently of the embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks, class_table, on_host, to_device
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_positive, kth, negative_at, no_triplets, one_each, uniforms


@register(
    "random",
    MinerFacts(
        paper="Roth et al. 2020 (roth2020), A.2",
        rule="p uniform in P(a), n uniform in N(a); mode 'triplets' (roth2020 code): b distinct triplets",
        random=True,
        sources={"mode": "roth2020 A.2"},
    ),
)
@dataclass(frozen=True)
class Random(BaseMiner):
    """One triplet per anchor (`mode="anchor"`), or as many of all triplets as the batch has rows (`"triplets"`).

    >>> labels = torch.tensor([0, 0, 1])
    >>> Random()(torch.eye(3), labels).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """

    mode: Literal["anchor", "triplets"] = "anchor"  # roth2020 A.2

    @property
    def one_per_anchor(self) -> bool:
        return self.mode == "anchor"

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        if not len(labels):
            return no_triplets(labels)
        host, anchors = on_host(labels), len(geometry.rows)
        if self.mode == "triplets":
            return to_device(_some_of_all(*class_masks(host, anchors), generator), labels.device)
        table = class_table(host, anchors)
        chosen_p = draw_positive(table, generator)
        chosen_n = negative_at(table, uniforms(anchors, host, generator))
        return to_device(one_each(table, chosen_p, chosen_n), labels.device)


def _some_of_all(positive: Tensor, negative: Tensor, generator: torch.Generator) -> Tensor:
    """Draw as many triplets as rows without replacement, by their index in the (never built) list of all triplets."""
    per_positive = negative.sum(1)
    running = (positive.sum(1) * per_positive).cumsum(0)
    total, wanted = int(running[-1]), len(positive)
    if total <= 4 * wanted:
        numbers = torch.randperm(total, generator=generator, device=generator.device)[:wanted]
    else:
        numbers = torch.empty(0, dtype=torch.int64, device=generator.device)
        while len(numbers) < wanted:  # redraw duplicates; at most a quarter of the numbers is taken
            more = torch.randint(total, (wanted,), generator=generator, device=generator.device)
            numbers = torch.cat((numbers, more))
            ordered, order = numbers.sort(stable=True)
            first = torch.ones_like(ordered, dtype=torch.bool)
            first[1:] = ordered[1:] != ordered[:-1]
            numbers = numbers[order[first].sort().values][:wanted]  # each at its first occurrence
    numbers = numbers.to(positive.device)
    anchor = torch.searchsorted(running, numbers, right=True)
    within = numbers - (running - positive.sum(1) * per_positive)[anchor]
    negatives = per_positive[anchor]
    chosen_p = kth(positive[anchor], within // negatives)
    chosen_n = kth(negative[anchor], within % negatives)
    triplets = torch.stack((anchor, chosen_p, chosen_n), 1)
    return triplets[torch.argsort(anchor, stable=True)]
