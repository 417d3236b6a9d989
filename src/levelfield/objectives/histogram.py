"""Histogram: the probability that a random negative pair is more similar than a random positive one."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Geometry, widest
from levelfield.labels import class_masks, class_table, hide_, put_
from levelfield.objectives._closed import closed, wants_slope
from levelfield.objectives._contract import Facts, Given, Objective, register
from levelfield.objectives._histograms import node_below_, soft_counts, tallies
from levelfield.settings import one_of, whole


def overlap(positive: Tensor, negative: Tensor) -> Tensor:
    """Terms h-(r) * sum_{q <= r} h+(q) of the nodes r, from the two histograms (nodes,) (roth2020 eq. 9).

    >>> overlap(torch.tensor([0.0, 0.5, 0.5]), torch.tensor([0.5, 0.5, 0.0]))
    tensor([0.0000, 0.2500, 0.0000])
    """
    return negative * positive.cumsum(0)


@register(
    "histogram",
    Facts(
        paper="Ustinova & Lempitsky 2016",
        equation="roth2020 eq. 7-9",
        formula="sum_r h-(r) sum_{q<=r} h+(q), h: histograms of the similarities with `bins` nodes on [-1, 1]",
        use="To separate the two distributions of similarities; only the resolution to tune; needs large batches.",
        tuples="none",
        batch="any positive pair",
        sources={"bins": "roth2020 A.1: 65 for CUB and CARS, 11 for SOP"},
        search={"bins": [11, 33, 65, 129]},
        weights=False,
    ),
)
class Histogram(Objective):
    """Histogram loss over all unordered pairs of the batch. Memory: O(batch * batch).

    `bins` is the number of nodes, both ends included (PML's `n_bins` is one less).

    >>> loss = Histogram(bins=3)
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))  # all similarities are 0
    tensor(1.)
    """

    def __init__(self, *, bins: int = 65, normalize: bool = True) -> None:
        super().__init__()
        self.bins = whole("bins", bins, least=2)
        self.normalize = one_of("normalize", normalize, (True, False))

    def parts(self, given: Given) -> dict[str, Tensor]:
        similarity = Geometry(given.embeddings, normalize=self.normalize).similarity
        position = ((similarity + 1) * self._per_unit).reshape(1, -1)
        sides = []
        for mask in class_masks(given.labels):
            once = mask.triu(1).reshape(1, -1)  # unordered pairs
            sides.append(soft_counts(position, once, self.bins)[0] / once.sum().clamp_min(1))
        terms = overlap(*sides)
        self.active = (terms.detach() > 0).sum()
        return {"histogram": terms.sum()}

    def quick(self, given: Given) -> Tensor | None:
        """Compute the positives' histogram first: each negative's slope is then a look-up by its bin."""
        geometry = Geometry(given.embeddings.detach(), normalize=self.normalize)
        table, matrix = class_table(given.labels), geometry.similarity  # overwritten: not needed again
        matrix.add_(1).mul_(self._per_unit)
        n, ordered = len(matrix), table.counts.sum().to(matrix.dtype)  # integer divisors would give float32
        positives, negatives = ordered.clamp_min(1), (n * (n - 1) - ordered).clamp_min(1)
        near = matrix.gather(1, table.others)
        pull = soft_counts(near.reshape(1, -1), table.valid.reshape(1, -1), self.bins)[0] / positives
        slopes = pull[1:] * (self._per_unit / negatives)
        push = torch.zeros(self.bins, dtype=widest(pull.device), device=pull.device)
        for tally in tallies(hide_(matrix, table, 0), self.bins):
            push += tally.histograms().sum(0, dtype=push.dtype)
            if wants_slope(given.embeddings):
                torch.gather(slopes.expand(len(tally.block), -1), 1, tally.lower, out=tally.block)
        push[0] -= n + ordered  # all masked entries are on the first node
        push = (push / negatives).to(pull.dtype)
        terms = overlap(pull, push)
        self.active = (terms > 0).sum()
        lower = node_below_(near, self.bins).long()
        put_(matrix.fill_diagonal_(0), table, push[lower] * (-self._per_unit / positives))
        return closed(given.embeddings, geometry, terms.sum(), matrix, "similarity", self.definition(given))

    @property
    def _per_unit(self) -> float:
        """Nodes per unit of similarity."""
        return (self.bins - 1) / 2
