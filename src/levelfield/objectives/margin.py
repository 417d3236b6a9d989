"""Margin: positives inside a boundary beta, negatives outside, both by a margin; the boundary may be learned."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.miners import MinerChoice
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.settings import NotNegative, Share


def margin_terms(to_positive: Tensor, to_negative: Tensor, beta: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
    """[d_ap - beta + margin]+ and [beta - d_an + margin]+ (Wu et al. 2017; roth2020 eq. 10, which lost the brackets).

    >>> margin_terms(torch.tensor([1.0]), torch.tensor([1.5]), torch.tensor([1.0]), margin=0.25)
    (tensor([0.2500]), tensor([0.]))
    """
    return (to_positive - beta + margin).relu(), (beta - to_negative + margin).relu()


@register(
    "margin",
    ObjectiveFacts(
        paper="Wu et al. 2017",
        equation="Wu et al. 2017 eq. 5; roth2020 eq. 10",
        formula="sum([d_ap - beta + margin]+ + [beta - d_an + margin]+) / number of terms above 0",
        use="When triplets are too strict: one learned boundary separates near from far; a strong baseline with "
        "distance-weighted negatives.",
        tuples="triplets",
        memory=True,
        miners=("distance_weighted", "random", "semihard", "softhard", "batch_hard", "all"),
        sources={
            "margin": "Wu et al. 2017, section 5; fehervari2019, roth2020",
            "beta": "Wu et al. 2017, section 5",
            "nu": "all published settings use 0",
            "divisor": "Wu et al. 2017, fehervari2019, PML; 'active_triplets': roth2020's code on a current torch",
            "beta_lr_multiplier": "roth2020: 5e-4 for beta, 1e-5 for the network",
            "beta_optimiser": "that of the conditions; fehervari2019 trains beta by SGD at 0.1 with momentum 0.9",
            "miner": "Wu et al. 2017",
        },
        published_lr=1e-5,
        search={
            "beta": (0.1, 1.4, "linear"),
            "beta_lr_multiplier": (0.05, 300, "log"),
            "margin": (-0.1, 0.4, "linear"),
        },
    ),
)
class Margin(Objective):
    """Margin loss with one boundary `beta`, or one per class (`beta_per_class`, looked up by the anchor's class).

    `nu` pulls the boundary down: it adds `nu` times the anchors' betas, divided by the divisor (`nu_reduction="pairs"`)
    or not (`"sum"`, roth2020's code). `beta_optimiser` trains the boundary with another optimiser than that of the
    conditions. Memory: O(batch * batch), also for all triplets (`miner="all"`).

    >>> loss = Margin(beta=1.2, miner="all")
    >>> loss.terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))["pull"].item()  # 16 terms, the 8 pulls above 0
    0.414...
    """

    beta: Tensor

    def __init__(
        self,
        *,
        margin: float = 0.2,
        beta: float = 1.2,
        learn_beta: bool = True,
        beta_per_class: bool = False,
        num_classes: int | None = None,
        nu: float = 0.0,
        nu_reduction: Literal["pairs", "sum"] = "pairs",
        divisor: Literal["active_pairs", "active_triplets"] = "active_pairs",
        normalize: bool = True,
        beta_lr_multiplier: NotNegative = 50.0,
        beta_optimiser: Literal["adam", "adamw", "radam", "rmsprop", "sgd"] | None = None,
        miner: MinerChoice = "distance_weighted",
        switch: Share = 0.0,
    ) -> None:
        super().__init__(miner=miner, switch=switch, margin=margin)
        self.margin, self.nu, self.nu_reduction, self.divisor = margin, nu, nu_reduction, divisor
        self.normalize, self.beta_lr_multiplier = normalize, beta_lr_multiplier
        self.beta_optimiser, self.beta_per_class = beta_optimiser, beta_per_class
        if beta_per_class and num_classes is None:
            raise BadSpecification("'margin' with beta_per_class needs num_classes.")
        self.num_classes = num_classes if beta_per_class else None
        start = torch.full((num_classes or 1,) if beta_per_class else (1,), beta)
        if learn_beta:
            self.beta = nn.Parameter(start)
        else:
            self.register_buffer("beta", start)

    def lr_multipliers(self) -> dict[str, float]:
        return {"beta": self.beta_lr_multiplier} if isinstance(self.beta, nn.Parameter) else {}

    def optimisers(self) -> dict[str, str]:
        return {"beta": self.beta_optimiser} if isinstance(self.beta, nn.Parameter) and self.beta_optimiser else {}

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        triplets = self.triplets_of(geometry, inputs)
        if triplets is None:
            return self._of_all(geometry, inputs)
        anchor, positive, negative = triplets.T
        beta = self._beta(inputs.labels.index_select(0, anchor))
        pull, push = margin_terms(
            geometry.distance_of(anchor, positive), geometry.distance_of(anchor, negative), beta, margin=self.margin
        )
        pulled, pushed = pull.detach() > 0, push.detach() > 0
        active = pulled.sum() + pushed.sum() if self.divisor == "active_pairs" else (pulled | pushed).sum()
        beta = beta.expand_as(pull)
        if inputs.weights is not None:
            weights = inputs.weights.index_select(0, anchor)
            pull, push, beta = pull * weights, push * weights, beta * weights
        return self._divided(pull.sum(), push.sum(), beta.sum(), active)

    def _of_all(self, geometry: Geometry, inputs: LossInputs) -> dict[str, Tensor]:
        """Over all triplets, each positive pair counts once per negative of its anchor, and vice versa."""
        positive, negative = inputs.class_masks()
        positives, negatives = positive.sum(1), negative.sum(1)
        beta = self._beta(inputs.labels[: len(positive)]).expand(len(positive))
        pull, push = margin_terms(geometry.distance, geometry.distance, beta[:, None], margin=self.margin)
        pulled = ((pull.detach() > 0) & positive).sum(1)
        pushed = ((push.detach() > 0) & negative).sum(1)
        pull, push = (pull * positive).sum(1), (push * negative).sum(1)
        if self.divisor == "active_pairs":
            active = (pulled * negatives + pushed * positives).sum()
        else:  # all triplets but those without a term above 0
            active = (positives * negatives - (positives - pulled) * (negatives - pushed)).sum()
        weights = torch.ones_like(pull) if inputs.weights is None else inputs.weights
        return self._divided(
            (weights * pull * negatives).sum(),
            (weights * push * positives).sum(),
            (weights * beta * (positives * negatives)).sum(),
            active,
        )

    def _beta(self, labels: Tensor) -> Tensor:
        return self.beta.index_select(0, labels) if self.beta_per_class else self.beta

    def _divided(self, pull: Tensor, push: Tensor, betas: Tensor, active: Tensor) -> dict[str, Tensor]:
        self.active = active
        divisor = active.clamp_min(1)
        terms = {"pull": pull / divisor, "push": push / divisor}
        if self.nu:
            terms["beta"] = self.nu * (betas / divisor if self.nu_reduction == "pairs" else betas)
        return terms
