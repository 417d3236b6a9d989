"""Generalised lifted structure: smooth maxima over each anchor's positives and negatives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_table, put_
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import closed
from levelfield.objectives._parts.sums import log_sum_exp, mean_norm, negatives, norms


def generalized_lifted_terms(distance: Tensor, positive: Tensor, negative: Tensor, *, margin: float) -> Tensor:
    """[log sum_p e^(d_ap) + log sum_n e^(margin - d_an)]+ of each anchor (n,); 0 without a positive or a negative.

    >>> from levelfield.labels import class_masks
    >>> distance = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    >>> generalized_lifted_terms(distance, *class_masks(torch.tensor([0, 0, 1])), margin=1.0)
    tensor([2., 2., 0.])
    """
    pull, push = log_sum_exp(distance, positive), log_sum_exp(margin - distance, negative)
    return (pull + push).relu() * (positive.any(1) & negative.any(1))


@register(
    "generalized_lifted",
    ObjectiveFacts(
        paper="Hermans et al. 2017",
        equation="roth2020 eq. 3",
        formula="mean_a [log sum_p e^(d_ap) + log sum_n e^(margin - d_an)]+ + nu mean_i |x_i|^nu_power",
        use="To use the whole batch, weighted towards the hardest images, without choosing a miner.",
        memory=True,
        sources={
            "margin": "roth2020 A.1",
            "nu": "roth2020 A.1",
            "nu_power": "roth2020 eq. 3 (its code: 1)",
            "normalize": "roth2020 A.1",
        },
        search={"margin": (0.1, 2.0, "linear"), "nu": (0.0001, 0.05, "log")},
    ),
)
class GeneralizedLifted(Objective):
    """Generalised lifted structure loss on raw rows. Memory: O(batch * batch).

    The mean is over the anchors with a positive and a negative; `nu` regularises the length of all rows. Eq. 3 has a
    sum over anchors and includes p = a; its code, and this one, use the mean and exclude it.

    >>> GeneralizedLifted().terms(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]))
    {'lifted': tensor(0.), 'norm': tensor(0.0167)}
    """

    margin: float = 1.0
    nu: float = 0.005
    nu_power: Literal[1, 2] = 2
    normalize: bool = False

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        positive, negative = inputs.class_masks()
        terms = generalized_lifted_terms(geometry.distance, positive, negative, margin=self.margin)
        self.active = (terms.detach() > 0).sum()
        valid = (positive.any(1) & negative.any(1)).sum().clamp_min(1)
        parts = {"lifted": inputs.weighted(terms).sum() / valid}
        if self.nu:
            norm = inputs.weighted(norms(geometry.rows, self.nu_power))
            parts["norm"] = self.nu * norm.sum() / max(1, len(norm))
        return parts

    def quick(self, inputs: LossInputs) -> Tensor:
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        table = class_table(inputs.labels)
        log_sum, slope, total = negatives(geometry.distance, table, -1.0)
        near = geometry.distance.gather(1, table.others).masked_fill_(~table.valid, -torch.inf)
        pull = near.logsumexp(1, keepdim=True)
        valid = ((table.counts > 0) & (table.counts < len(near) - 1)).sum().clamp_min(1)
        hinge = (pull + log_sum).add_(self.margin).relu_()
        above = hinge > 0
        self.active = above.sum()
        factor = above.to(hinge.dtype).div_(valid)
        slope.mul_(-factor / total)
        put_(slope, table, near.sub_(pull.clamp_min_(torch.finfo(near.dtype).min)).exp_().mul_(factor))
        norm, add_slope_ = mean_norm(geometry, self.nu, self.nu_power)
        return closed(self, inputs, geometry, {"lifted": hinge.sum() / valid} | norm, slope, "distance", add_slope_)
