"""Histogram: the probability that a random negative pair is more similar than a random positive one."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register


def overlap(positive: Tensor, negative: Tensor) -> Tensor:
    """Terms h-(r) * sum_{q <= r} h+(q) of the nodes r, from the two histograms (nodes,) (roth2020 eq. 9).

    >>> overlap(torch.tensor([0.0, 0.5, 0.5]), torch.tensor([0.5, 0.5, 0.0]))
    tensor([0.0000, 0.2500, 0.0000])
    """
    return negative * positive.cumsum(0)


def soft_counts(position: Tensor, counted: Tensor, nodes: int) -> Tensor:
    """Histograms (m, nodes) of the rows of `position` (m, n), given in units of nodes.

    A value r + w adds 1 - w to node r and w to node r + 1; beyond the last node the line is extrapolated.

    >>> soft_counts(torch.tensor([[0.25, 1.0, 2.0]]), torch.tensor([[True, True, True]]), 3)
    tensor([[0.7500, 1.2500, 1.0000]])
    """
    zero = position.new_zeros(())  # the lower node of NaN, whose share stays NaN
    lower = torch.fmax(position.detach().floor(), zero).clamp_max_(nodes - 2)
    share, index = position - lower, lower.long()
    empty = position.new_zeros(len(position), nodes)
    return empty.scatter_add(1, index, (1 - share) * counted).scatter_add(1, index + 1, share * counted)


@register(
    "histogram",
    ObjectiveFacts(
        paper="Ustinova & Lempitsky 2016",
        equation="roth2020 eq. 7-9",
        formula="sum_r h-(r) sum_{q<=r} h+(q), h: histograms of the similarities with `bins` nodes on [-1, 1]",
        use="To separate the two distributions of similarities; only the resolution to tune; needs large batches.",
        batch="any positive pair",
        sources={"bins": "roth2020 A.1: 65 for CUB and CARS, 11 for SOP"},
        search={"bins": [11, 33, 65, 129]},
        weights=False,
    ),
)
class Histogram(Objective):
    """Histogram loss over all unordered pairs of the batch. Memory: O(batch * batch).

    `bins` is the number of nodes, both ends included (PML's `n_bins` is one less).

    >>> Histogram(bins=3)(torch.eye(4), torch.tensor([0, 0, 1, 1]))  # all similarities are 0
    tensor(1.)
    """

    bins: Annotated[int, Ge(2)] = 65
    normalize: bool = True

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        similarity = Geometry(inputs.embeddings, normalize=self.normalize).similarity
        position = ((similarity + 1) * ((self.bins - 1) / 2)).reshape(1, -1)  # in units of nodes
        sides = []
        for mask in class_masks(inputs.labels):
            once = mask.triu(1).reshape(1, -1)  # unordered pairs
            sides.append(soft_counts(position, once, self.bins)[0] / once.sum().clamp_min(1))
        terms = overlap(*sides)
        self.active = (terms.detach() > 0).sum()
        return {"histogram": terms.sum()}
