"""Tuples by labels alone, whatever the embeddings are: all triplets, random ones, and random positive pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks, class_table, on_host, to_device
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_positive, kth, negative_at, no_triplets, one_each, uniforms


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
