"""Contrastive: positives closer than one margin, negatives farther than another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_table, hide_, put_
from levelfield.miners import MinerChoice, Tuples
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import Matrix, closed
from levelfield.objectives._parts.sums import Reduction, mean
from levelfield.settings import Share

if TYPE_CHECKING:
    from levelfield.objectives.snr import SNR


def contrastive_terms(distance: Tensor, same: Tensor, *, pos_margin: float = 0.0, neg_margin: float = 1.0) -> Tensor:
    """Loss of every pair (roth2020 eq. 1), in the shape of `distance`.

    >>> contrastive_terms(torch.tensor([0.25, 0.25]), torch.tensor([True, False]))
    tensor([0.2500, 0.7500])
    """
    return torch.where(same, (distance - pos_margin).relu(), (neg_margin - distance).relu())


@register(
    "contrastive",
    ObjectiveFacts(
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

    >>> Contrastive(miner="all").terms(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    {'positive': tensor(1.4142), 'negative': tensor(0.)}
    """

    pos_margin: float = 0.0
    neg_margin: float = 1.0
    squared: bool = False
    normalize: bool = True
    reduction: Reduction = "mean"
    miner: MinerChoice = "distance_weighted"
    switch: Share = 0.0

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = inputs.geometry(normalize=self.normalize)
        tuples = self.tuples_of(geometry, inputs)
        if tuples is None:
            distance = geometry.squared_distance if self.squared else geometry.distance
            anchors = torch.arange(len(distance), device=distance.device)[:, None]
            return means_of_sides(self, inputs, [(distance, mask, anchors) for mask in inputs.class_masks()])
        sides = [
            (geometry.distance_of(*pairs.T, squared=self.squared), None, pairs[:, 0])
            for pairs in sides_of(self, tuples)
        ]
        return means_of_sides(self, inputs, sides)

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if not self.takes_everything(inputs):
            return None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        matrix: Matrix = "squared_distance" if self.squared else "distance"
        terms, slope, self.active = all_pairs(
            getattr(geometry, matrix),
            class_table(inputs.labels),
            pos_margin=self.pos_margin,
            neg_margin=self.neg_margin,
            reduction=self.reduction,
        )
        return closed(self, inputs, geometry, terms, slope, matrix)


def sides_of(objective: Objective, tuples: Tuples) -> tuple[Tensor, Tensor]:
    """Positive and negative pairs: given as such, or as the two sides of triplets."""
    if not isinstance(tuples, Tensor):
        return tuples
    if tuples.dim() != 2 or tuples.shape[1] != 3:
        raise BadInput(
            f"{objective.who} takes triplets (t, 3), or positive and negative pairs (p, 2), (q, 2); "
            f"it got one tensor of shape {tuple(tuples.shape)}."
        )
    return tuples[:, :2], tuples[:, ::2]


def means_of_sides(
    objective: Contrastive | SNR, inputs: LossInputs, sides: Iterable[tuple[Tensor, Tensor | None, Tensor]]
) -> dict[str, Tensor]:
    """Mean loss of the positive and of the negative pairs, each given as distances, mask of those that count (None:
    all) and anchors. Sets `active`."""
    terms, active = {}, []
    for name, (distance, counted, anchors) in zip(("positive", "negative"), sides, strict=True):
        same = torch.full((), name == "positive", device=distance.device)
        losses = contrastive_terms(distance, same, pos_margin=objective.pos_margin, neg_margin=objective.neg_margin)
        terms[name] = mean(losses, counted, objective.reduction, inputs.weights_of(anchors))
        above = losses.detach() > 0
        active.append((above if counted is None else above & counted).sum())
    objective.active = torch.stack(active).sum()
    return terms


def all_pairs(
    matrix: Tensor,
    table: ClassTable,
    *,
    pos_margin: float,
    neg_margin: float,
    reduction: Reduction,
    usable: Tensor | None = None,
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Terms over all pairs, the slope (n, n) of their sum by the matrix, and the number of pairs above 0.

    The negatives are the matrix with the few positives hidden. usable: mask (n,) of the anchors that count.
    """
    pull = ((matrix.gather(1, table.others) - pos_margin) * table.valid).relu_()
    push = hide_(neg_margin - matrix, table, -torch.inf).relu_()
    if usable is not None:
        push.mul_(usable[:, None])
    pulled, total = pull > 0, push.sum()
    slope = torch.gt(push, 0, out=push)  # 1 where a negative is too close
    positives, negatives = pulled.sum(), slope.sum().long()
    active = positives + negatives
    if reduction == "mean":
        others = len(matrix) - 1 - table.counts
        positives, negatives = table.counts.sum(), (others if usable is None else others * usable).sum()
    positives, negatives = positives.clamp_min(1), negatives.clamp_min(1)
    terms = {"positive": pull.sum() / positives, "negative": total / negatives}
    return terms, put_(slope.div_(-negatives), table, pulled.to(slope.dtype) / positives), active
