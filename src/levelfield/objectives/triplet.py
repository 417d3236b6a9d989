"""Triplet: the positive closer than the negative by a margin."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import class_table, positive_pairs
from levelfield.miners import Miner, MinerChoice
from levelfield.miners.semihard import Semihard
from levelfield.objectives._contract import Facts, LossInputs, Objective, register
from levelfield.objectives._parts.closed import Matrix, closed
from levelfield.objectives._parts.sums import Reduction, mean, sum_over_blocks
from levelfield.objectives._parts.triplets import all_hinges
from levelfield.settings import Share


def triplet_terms(to_positive: Tensor, to_negative: Tensor, *, margin: float = 0.2, smooth: bool = False) -> Tensor:
    """h(d_ap - d_an + margin), h = relu or (`smooth`) softplus (fehervari2019 eq. 1, roth2020 eq. 2).

    >>> triplet_terms(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.0]), margin=0.25)
    tensor([0.2500, 0.0000])
    """
    difference = to_positive - to_negative + margin
    return functional.softplus(difference) if smooth else difference.relu()


@register(
    "triplet",
    Facts(
        paper="Schroff et al. 2015",
        equation="fehervari2019 eq. 1, roth2020 eq. 2",
        formula="mean [d_ap - d_an + margin]+",
        use="When only the order of distances matters; depends strongly on the miner (semihard is a safe choice).",
        tuples="triplets",
        memory=True,
        miners=("semihard", "distance_weighted", "softhard", "batch_hard", "random", "all"),
        sources={
            "margin": "roth2020 A.1",
            "squared": "roth2020 eq. 2 (its code squares)",
            "miner": "Schroff et al. 2015",
        },
        search={"margin": (0.02, 1.0, "log"), "squared": [False, True]},
    ),
)
class Triplet(Objective):
    """Triplet loss on mined triplets, or with `miner="all"` on all triplets without listing them.

    roth2020's published results use squared distances (`squared=True`), although its equation has plain ones. `swap`
    uses min(d_an, d_pn). A `semihard` miner uses this margin unless it has its own. Memory: O(batch * batch).

    >>> loss = Triplet(margin=0.2, miner="all")
    >>> loss(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(0.2000)
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        squared: bool = False,
        smooth: bool = False,
        swap: bool = False,
        normalize: bool = True,
        reduction: Reduction = "mean",
        miner: MinerChoice = "semihard",
        switch: Share = 0.0,
    ) -> None:
        super().__init__(miner=miner, switch=switch, margin=margin)
        self.margin, self.squared, self.smooth, self.swap = margin, squared, smooth, swap
        self.normalize, self.reduction = normalize, reduction

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        if self.swap and inputs.columns is not None:
            raise BadInput(
                "Objective 'triplet' with swap compares positives with negatives and does not support a memory."
            )
        geometry = inputs.geometry(normalize=self.normalize)
        triplets = self.chosen_triplets(geometry, inputs)
        if triplets is None:
            return {"triplet": self._of_everything(geometry, inputs)}
        anchor, positive, negative = triplets.T
        to_positive = geometry.distance_of(anchor, positive, squared=self.squared)
        to_negative = geometry.distance_of(anchor, negative, squared=self.squared)
        if self.swap:
            to_negative = torch.minimum(to_negative, geometry.distance_of(positive, negative, squared=self.squared))
        terms = triplet_terms(to_positive, to_negative, margin=self.margin, smooth=self.smooth)
        self.active = (terms.detach() > 0).sum()
        return {
            "triplet": mean(terms, None, self.reduction, None if inputs.weights is None else inputs.weights[anchor])
        }

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if inputs.weights is not None or self.smooth or self.swap:
            return None
        band = inputs.tuples is None and self._is_band(self.miner)
        if not band and not self.takes_everything(inputs):
            return None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        matrix: Matrix = "squared_distance" if self.squared else "distance"
        hinges = all_hinges(getattr(geometry, matrix), class_table(inputs.labels), margin=self.margin, band=band)
        self.active = hinges.active
        divisor = (hinges.listed if self.reduction == "mean" else hinges.active).clamp_min(1)
        value, slope = hinges.total / divisor, hinges.slope.div_(divisor)
        return closed(inputs.embeddings, geometry, value, slope, matrix, self.definition(inputs))

    def _is_band(self, miner: Miner | None) -> bool:
        """Whether the miner selects all negatives beyond the positive by at most this margin, which need not be
        listed."""
        same = isinstance(miner, Semihard) and miner.mode == "all" and miner.margin == self.margin
        return same and not self.squared

    def _of_everything(self, geometry: Geometry, inputs: LossInputs) -> Tensor:
        """All triplets, in blocks of positive pairs against all negatives."""
        positive, negative = inputs.class_masks()
        weights = inputs.weights
        self.active = active = torch.zeros((), dtype=torch.int64, device=positive.device)

        def block_sum(distance: Tensor, pairs: Tensor) -> Tensor:
            anchor, other = pairs.T
            to_negative = distance.index_select(0, anchor)
            if self.swap:
                to_negative = torch.minimum(to_negative, distance.index_select(0, other))
            to_positive = distance[anchor, other][:, None]
            terms = triplet_terms(to_positive, to_negative, margin=self.margin, smooth=self.smooth)
            terms = terms * negative.index_select(0, anchor)
            active.add_((terms.detach() > 0).sum())
            return (terms if weights is None else terms * weights[anchor][:, None]).sum()

        matrix = geometry.squared_distance if self.squared else geometry.distance
        total = sum_over_blocks(block_sum, matrix, positive_pairs(inputs.labels, len(inputs.embeddings)))
        count = (positive.sum(1) * negative.sum(1)).sum() if self.reduction == "mean" else active
        return total / count.clamp_min(1)
