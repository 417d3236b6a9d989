"""FastAP: average precision of each anchor's ranking, made differentiable by soft histograms."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives.histogram import soft_counts
from levelfield.settings import Count


def average_precision(positive: Tensor, others: Tensor, positives: Tensor) -> Tensor:
    """AP (m,) = 1/|P| sum_l h+_l H+_l / H_l from histograms (m, nodes), H = running sums (Cakir et al. 2019).

    >>> average_precision(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([1]))
    tensor([0.5000])
    """
    sums = others.cumsum(1)
    inverse = sums.masked_fill(sums <= 0, torch.inf).reciprocal()  # 0 for empty sums: such terms are 0
    return (positive * positive.cumsum(1) * inverse).sum(1) / positives.clamp_min(1)


@register(
    "fast_ap",
    ObjectiveFacts(
        paper="Cakir et al. 2019",
        equation="Cakir et al. 2019 eq. 6-8",
        formula="1 - mean_i 1/|P(i)| sum_l h+_l H+_l / H_l, h: histograms of d^2 with `bins` intervals on [0, 4]",
        use="To optimise average precision directly; works best with large batches and several images per class.",
        sources={"bins": "Cakir et al. 2019, section 5; PML"},
        search={"bins": (5, 100, "log")},
    ),
)
class FastAP(Objective):
    """FastAP loss: mean of 1 - AP over the anchors with a positive. Memory: O(batch * batch).

    `bins` is the number of intervals, one less than the nodes. The authors' hand-written gradient is (number of
    anchors) / 2 times the true one, so their learning rates do not apply here.

    >>> FastAP()(torch.eye(4), torch.tensor([0, 0, 1, 1]))  # the positive ties with two negatives
    tensor(0.6667)
    """

    bins: Count = 10
    normalize: bool = True

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        squares = Geometry(inputs.embeddings, normalize=self.normalize).squared_distance
        # in units of nodes; raw rows may be so far apart that they add nothing to any node
        position = (squares * (self.bins / 4)).clamp_max(self.bins + 1)
        positive, negative = class_masks(inputs.labels)
        # without the nodes beyond the last
        near, others = (
            soft_counts(position, counted, self.bins + 3)[:, :-2] for counted in (positive, positive | negative)
        )
        positives = positive.sum(1)
        terms = (1 - average_precision(near, others, positives)) * (positives > 0)
        self.active = (terms.detach() > 0).sum()
        anchors = (positives > 0).sum().clamp_min(1)
        return {"fast_ap": inputs.weighted(terms).sum() / anchors}
