"""Contrastive: positives closer than one margin, negatives farther than another."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import class_table, hide_, put_
from levelfield.miners import MinerChoice, Tuples
from levelfield.objectives._contract import Facts, LossInputs, Objective, register
from levelfield.objectives._parts.closed import Matrix, closed
from levelfield.objectives._parts.sums import Reduction, mean
from levelfield.settings import Share


def contrastive_terms(distance: Tensor, same: Tensor, *, pos_margin: float = 0.0, neg_margin: float = 1.0) -> Tensor:
    """Loss of every pair (roth2020 eq. 1), in the shape of `distance`.

    >>> contrastive_terms(torch.tensor([0.25, 0.25]), torch.tensor([True, False]))
    tensor([0.2500, 0.7500])
    """
    return torch.where(same, (distance - pos_margin).relu(), (neg_margin - distance).relu())


@register(
    "contrastive",
    Facts(
        paper="Hadsell et al. 2006 in the form of Roth et al. 2020 (roth2020)",
        equation="roth2020 eq. 1",
        formula="mean_pos [d - pos_margin]+ + mean_neg [neg_margin - d]+",
        use="The first to try: two margins on distances, no class vectors, any labels; strong with "
        "distance-weighted pairs.",
        tuples="pairs",
        memory=True,
        miners=("distance_weighted", "all", "random", "semihard", "softhard", "batch_hard", "multi_similarity"),
        sources={
            "pos_margin": "roth2020 A.1",
            "neg_margin": "roth2020 A.1",
            "miner": "roth2020 A.2",
            "reduction": "roth2020 eq. 1",
        },
        search={"neg_margin": (0.3, 1.4, "linear"), "pos_margin": (-0.2, 0.5, "linear")},
    ),
)
class Contrastive(Objective):
    """Contrastive loss on mined pairs, or with `miner="all"` on every ordered pair. Memory: O(batch * batch).

    Hadsell et al. square and halve the terms; fehervari2019 and roth2020 do not. `squared` uses d^2 instead of d.

    >>> loss = Contrastive(miner="all")
    >>> loss.terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    {'positive': tensor(1.4142), 'negative': tensor(0.)}
    """

    def __init__(
        self,
        *,
        pos_margin: float = 0.0,
        neg_margin: float = 1.0,
        squared: bool = False,
        normalize: bool = True,
        reduction: Reduction = "mean",
        miner: MinerChoice = "distance_weighted",
        switch: Share = 0.0,
    ) -> None:
        super().__init__(miner=miner, switch=switch)
        self.pos_margin, self.neg_margin, self.squared = pos_margin, neg_margin, squared
        self.normalize, self.reduction = normalize, reduction

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        tuples = self.chosen(geometry, inputs)
        if tuples is None:
            return self._of_everything(geometry, inputs)
        pairs = self._sides(tuples)
        sides = []
        for (anchor, other), same in zip((pair.T for pair in pairs), (True, False), strict=True):
            distance = geometry.distance_of(anchor, other, squared=self.squared)
            hinge = (distance - self.pos_margin).relu() if same else (self.neg_margin - distance).relu()
            sides.append((hinge, None if inputs.weights is None else inputs.weights[anchor]))
        self.active = sum((hinge.detach() > 0).sum() for hinge, _ in sides)
        positive, negative = (mean(hinge, None, self.reduction, weights) for hinge, weights in sides)
        return {"positive": positive, "negative": negative}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        """All pairs: the negatives are the matrix with the few positives masked."""
        if inputs.weights is not None or not self.takes_everything(inputs):
            return None
        geometry, table = Geometry(inputs.embeddings.detach(), normalize=self.normalize), class_table(inputs.labels)
        matrix: Matrix = "squared_distance" if self.squared else "distance"
        distance: Tensor = getattr(geometry, matrix)
        pull = ((distance.gather(1, table.others) - self.pos_margin) * table.valid).relu_()
        push = hide_(self.neg_margin - distance, table, -torch.inf).relu_()
        value, pulls, pushes = pull.sum(), pull > 0, push.sum()
        slope = torch.gt(push, 0, out=push)  # 1 where a negative is too close
        active, positives = slope.sum(), table.counts.sum()
        self.active = pulls.sum() + active.long()
        if self.reduction == "mean":
            active = len(distance) * (len(distance) - 1) - positives
        else:
            positives = pulls.sum()
        positives, active = positives.clamp_min(1), active.clamp_min(1)
        slope.div_(-active)
        value = self.total({"positive": value / positives, "negative": pushes / active})
        put_(slope, table, pulls.to(slope.dtype) / positives)
        return closed(inputs.embeddings, geometry, value, slope, matrix, self.definition(inputs))

    def _sides(self, tuples: Tuples) -> tuple[Tensor, Tensor]:
        """Positive and negative pairs: given as such, or as the two sides of triplets."""
        if not isinstance(tuples, Tensor):
            return tuples
        if tuples.dim() != 2 or tuples.shape[1] != 3:
            raise BadInput(
                f"Objective '{self._label}' takes triplets (t, 3), or positive and negative pairs (p, 2), (q, 2); "
                f"it got one tensor of shape {tuple(tuples.shape)}."
            )
        return tuples[:, :2], tuples[:, ::2]

    def _of_everything(self, geometry: Geometry, inputs: LossInputs) -> dict[str, Tensor]:
        positive, negative = inputs.class_masks()
        distance = geometry.squared_distance if self.squared else geometry.distance
        terms = contrastive_terms(distance, positive, pos_margin=self.pos_margin, neg_margin=self.neg_margin)
        weights = None if inputs.weights is None else inputs.weights[:, None]
        self.active = ((terms.detach() > 0) & (positive | negative)).sum()
        return {
            "positive": mean(terms, positive, self.reduction, weights),
            "negative": mean(terms, negative, self.reduction, weights),
        }
