"""Lifted structure: each positive pair against all negatives of both its members."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import class_masks, class_table, put_
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import closed
from levelfield.objectives._parts.sums import log_sum_exp, mean, negatives


def lifted_structure_terms(distance: Tensor, negative: Tensor, *, margin: float) -> Tensor:
    """Half of [J_ij]+^2 for every i, j of one class (fehervari2019 eq. 2), in the shape of `distance`.

    J_ij = log( sum_{k in N(i)} e^(margin - d_ik) + sum_{l in N(j)} e^(margin - d_jl) ) + d_ij

    >>> distance = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    >>> lifted_structure_terms(distance, class_masks(torch.tensor([0, 0, 1]))[1], margin=1.0)[0, 1]  # (log 2 + 2)^2 / 2
    tensor(3.6265)
    """
    pushes = log_sum_exp(margin - distance, negative)
    hinge = (torch.logaddexp(pushes[:, None], pushes[None, :]) + distance).relu()
    return hinge.square() / 2 * negative.any(1, keepdim=True)


@register(
    "lifted_structure",
    ObjectiveFacts(
        paper="Oh Song et al. 2016",
        equation="fehervari2019 eq. 2",
        formula="1/(2|P|) sum_P [log(sum_k e^(margin - d_ik) + sum_l e^(margin - d_jl)) + d_ij]+^2",
        use="To compare every positive pair with all negatives of both its images; for raw rows and batches of "
        "moderate size.",
        sources={"margin": "Oh Song et al. 2016; fehervari2019 code", "normalize": "fehervari2019 Table 1"},
        search={"margin": (0.1, 2.0, "linear")},
    ),
)
class LiftedStructure(Objective):
    """Lifted structure loss over all positive pairs, on raw rows. Memory: O(batch * batch).

    The mean is over all positive pairs including zero terms; each order of a pair counts half.

    >>> LiftedStructure()(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]))
    tensor(0.0491)
    """

    margin: float = 1.0
    normalize: bool = False

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = Geometry(inputs.embeddings, normalize=self.normalize)
        positive, negative = class_masks(inputs.labels)
        terms = lifted_structure_terms(geometry.distance, negative, margin=self.margin)
        self.active = ((terms.detach() > 0) & positive).sum()
        return {"lifted": mean(inputs.weighted(terms), positive, "mean")}

    def quick(self, inputs: LossInputs) -> Tensor:
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        table = class_table(inputs.labels)
        pairs = table.counts.sum().clamp_min(1).to(geometry.rows.dtype)
        log_sum, slope, total = negatives(geometry.distance, table, -1.0)
        others = log_sum[table.others, 0]
        hinge = torch.logaddexp(log_sum, others).add_(self.margin).add_(geometry.distance.gather(1, table.others))
        hinge = hinge.relu_().mul_(table.valid)
        self.active = (hinge > 0).sum()
        # Both orders of a pair change the sum of this member, by its share in the sum of both.
        share = torch.sigmoid(log_sum - others).nan_to_num_().mul_(hinge).sum(1, keepdim=True)
        slope.mul_(share.mul_(-2 / pairs).div_(total))
        put_(slope, table, hinge / pairs)
        return closed(self, inputs, geometry, {"lifted": hinge.square().sum() / (2 * pairs)}, slope, "distance")
