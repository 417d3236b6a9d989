"""Hard tuples: the hardest triplet of every anchor; one drawn among those with a positive farther than the nearest
negative and a negative nearer than the farthest positive; pairs that are hard compared with the hardest of the other
kind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks, class_table, hide_
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import draw_negative_between, draw_uniform, no_triplets, one_each


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


def kept_pairs(similarity: Tensor, positive: Tensor, negative: Tensor, *, epsilon: float) -> tuple[Tensor, Tensor]:
    """Positives with s < max negative + epsilon, negatives with s > min positive - epsilon: two (n, n) masks.

    An anchor without a positive or without a negative keeps nothing. roth2020 eq. 11, corrected.

    >>> s = torch.tensor([[1.0, 0.2, 0.5], [0.2, 1.0, -1.0], [0.5, -1.0, 1.0]])
    >>> kept, _ = kept_pairs(s, *class_masks(torch.tensor([0, 0, 1])), epsilon=0.1)
    >>> kept.nonzero().tolist()
    [[0, 1]]
    """
    if not len(similarity):
        return positive, negative
    hardest_negative = similarity.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    hardest_positive = similarity.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    # Keep a pair unless the comparison fails, so that NaN shows in the loss.
    left_out = similarity >= hardest_negative + epsilon, similarity <= hardest_positive - epsilon
    return positive & ~left_out[0], negative & ~left_out[1]


@register(
    "multi_similarity",
    MinerFacts(
        paper="Wang et al. 2019; roth2020 eq. 11",
        rule="positives: s_ij < max_N s_ik + epsilon; negatives: s_ik > min_P s_ij - epsilon",
        returns="positive pairs, negative pairs",
        search={"epsilon": (0.01, 0.5, "log")},
        sources={"epsilon": "Wang et al. 2019; roth2020"},
    ),
)
@dataclass(frozen=True)
class MultiSimilarityMiner(BaseMiner):
    """Positive pairs (p, 2) and negative pairs (q, 2), (anchor, other), lexicographic. Not random.

    >>> positive, negative = MultiSimilarityMiner()(torch.eye(3), torch.tensor([0, 0, 1]))
    >>> positive.tolist(), negative.tolist()
    ([[0, 1], [1, 0]], [[0, 2], [1, 2]])
    """

    epsilon: float = 0.1

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        masks = class_masks(labels, len(geometry.rows))
        positive, negative = kept_pairs(geometry.similarity.detach(), *masks, epsilon=self.epsilon)
        return positive.nonzero(), negative.nonzero()
