"""Ranked list: positives inside one boundary, negatives outside another, with larger weights for nearer negatives."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.sums import Reduction
from levelfield.settings import NotNegative, number


def ranked_terms(excess: Tensor, counted: Tensor, *, temperature: float, weight_grad: bool) -> Tensor:
    """Weighted mean (n,) of each row's `excess` > 0, weights e^(temperature * excess) (fehervari2019 eq. 6-8).

    Only `counted` entries are used; a row without any gives 0. The weights are constants for the gradient unless
    `weight_grad`.

    >>> excess, counted = torch.tensor([[1.0, 3.0, -1.0]]), torch.tensor([[True, True, True]])
    >>> ranked_terms(excess, counted, temperature=0, weight_grad=False)
    tensor([2.])
    """
    chosen = counted & (excess.detach() > 0)
    logits = (temperature * (excess if weight_grad else excess.detach())).masked_fill(~chosen, -torch.inf)
    weights = logits.masked_fill(~chosen.any(1, keepdim=True), 0).softmax(1)  # softmax of an empty row is NaN
    return (weights * excess * chosen).sum(1)


@register(
    "ranked_list",
    ObjectiveFacts(
        paper="Wang et al. 2019 (Ranked List Loss)",
        equation="fehervari2019 eq. 6-9",
        formula="mean_i [ mean_P* (d - (alpha - margin)) + lam sum_N* w (alpha - d) / sum_N* w ], "
        "w = e^(temperature (alpha - d)); the stars keep the terms above 0",
        use="To keep some spread within a class while using every hard negative of the batch, without a miner.",
        memory=True,
        batch="2 per class (fehervari2019: 3)",
        sources={
            "alpha": "Wang et al. 2019; fehervari2019",
            "margin": "Wang et al. 2019; fehervari2019",
            "temperature": "Wang et al. 2019; fehervari2019",
            "temperature_pos": "Wang et al. 2019: equal weights for positives",
            "lam": "fehervari2019",
            "combine": "fehervari2019; 'convex' is the later version and PML's, with lam 0.5",
            "weight_grad": "Wang et al. 2019's gradient; fehervari2019's code and PML differentiate the weights",
            "reduction": "Wang et al. 2019; 'mean_nonzero' is fehervari2019's code",
        },
        search={"alpha": (0.8, 1.4, "linear"), "margin": (0.1, 0.8, "linear"), "temperature": (1, 30, "log")},
        tags={
            "gradient_is_the_derivative": "The weights are constants for the gradient, as Wang et al. state it; "
            "weight_grad=True differentiates them."
        },
    ),
)
class RankedList(Objective):
    """Ranked list loss over all pairs of the batch. Memory: O(batch * batch).

    `combine="sum"`: L_P + lam L_N; `"convex"`: (1 - lam) L_P + lam L_N. `temperature_pos` weights the positives too.

    >>> RankedList().terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    {'positive': tensor(0.6142), 'negative': tensor(0.)}
    """

    alpha: float = 1.2
    margin: float = 0.4
    temperature: NotNegative = 10.0
    temperature_pos: NotNegative = 0.0
    lam: NotNegative = 1.0
    combine: Literal["sum", "convex"] = "sum"
    weight_grad: bool = False
    normalize: bool = True
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.combine == "convex":
            number("lam", self.lam, least=0, most=1)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        distance = inputs.geometry(normalize=self.normalize).distance
        positive, negative = inputs.class_masks()
        grad = self.weight_grad
        inner = self.alpha - self.margin  # the boundary of the positives
        pull = ranked_terms(distance - inner, positive, temperature=self.temperature_pos, weight_grad=grad)
        push = ranked_terms(self.alpha - distance, negative, temperature=self.temperature, weight_grad=grad)
        pull, push = pull * (1 - self.lam if self.combine == "convex" else 1.0), push * self.lam
        self.active = (pull.detach() + push.detach() > 0).sum()
        nonzero = self.reduction == "mean_nonzero"
        divisor = self.active.clamp_min(1).to(pull.dtype) if nonzero else max(1, len(pull))
        return {"positive": inputs.weighted(pull).sum() / divisor, "negative": inputs.weighted(push).sum() / divisor}
