"""Pairs that are hard compared with the hardest pair of the other kind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks
from levelfield.miners._contract import BaseMiner, MinerFacts, register


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
