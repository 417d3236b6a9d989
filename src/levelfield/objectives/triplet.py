"""Triplet: the positive closer than the negative by a margin."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_table, hide_, positive_pairs, put_, row_blocks
from levelfield.miners import MinerChoice, Semihard
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import Matrix, closed
from levelfield.objectives._parts.sums import Reduction, mean, sum_over_blocks
from levelfield.settings import Share

LOOPED = 24  # up to this many positives, comparing each is faster than sorting


def triplet_terms(to_positive: Tensor, to_negative: Tensor, *, margin: float = 0.2, smooth: bool = False) -> Tensor:
    """h(d_ap - d_an + margin), h = relu or (`smooth`) softplus (fehervari2019 eq. 1, roth2020 eq. 2).

    >>> triplet_terms(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.0]), margin=0.25)
    tensor([0.2500, 0.0000])
    """
    difference = to_positive - to_negative + margin
    return functional.softplus(difference) if smooth else difference.relu()


@register(
    "triplet",
    ObjectiveFacts(
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

    >>> Triplet(margin=0.2, miner="all")(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    tensor(0.2000)
    """

    margin: float = 0.2
    squared: bool = False
    smooth: bool = False
    swap: bool = False
    normalize: bool = True
    reduction: Reduction = "mean"
    miner: MinerChoice = "semihard"
    switch: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__(margin=self.margin)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        if self.swap and inputs.columns is not None:
            raise BadInput(
                "Objective 'triplet' with swap compares positives with negatives and does not support a memory."
            )
        geometry = inputs.geometry(normalize=self.normalize)
        triplets = self.triplets_of(geometry, inputs)
        if triplets is None:
            matrix = geometry.squared_distance if self.squared else geometry.distance
            pairs, (positive, negative) = positive_pairs(inputs.labels, len(matrix)), inputs.class_masks()
            settings: dict[str, Any] = {"margin": self.margin, "smooth": self.smooth, "swap": self.swap}
            total, self.active = sum_over_triplets(matrix, pairs, negative, inputs.weights, **settings)
            count = (positive.sum(1) * negative.sum(1)).sum() if self.reduction == "mean" else self.active
            return {"triplet": total / count.clamp_min(1)}
        anchor, positive, negative = triplets.T
        to_positive = geometry.distance_of(anchor, positive, squared=self.squared)
        to_negative = geometry.distance_of(anchor, negative, squared=self.squared)
        if self.swap:
            to_negative = torch.minimum(to_negative, geometry.distance_of(positive, negative, squared=self.squared))
        terms = triplet_terms(to_positive, to_negative, margin=self.margin, smooth=self.smooth)
        self.active = (terms.detach() > 0).sum()
        return {"triplet": mean(terms, None, self.reduction, inputs.weights_of(anchor))}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        miner = self.miner  # one that selects all negatives farther than the positive by at most this margin?
        same = isinstance(miner, Semihard) and miner.mode == "all" and miner.margin == self.margin
        band = inputs.tuples is None and same and not self.squared
        if self.smooth or self.swap or not (band or self.takes_everything(inputs)):
            return None
        geometry = Geometry(inputs.embeddings.detach(), normalize=self.normalize)
        matrix: Matrix = "squared_distance" if self.squared else "distance"
        hinges = all_hinges(getattr(geometry, matrix), class_table(inputs.labels), margin=self.margin, band=band)
        self.active = hinges.active
        value, slope = hinges.mean_(self.reduction)
        return closed(self, inputs, geometry, {"triplet": value}, slope, matrix)


def sum_over_triplets(
    matrix: Tensor,
    items: Tensor,
    negative: Tensor,
    weights: Tensor | None,
    *,
    margin: float,
    smooth: bool = False,
    swap: bool = False,
) -> tuple[Tensor, Tensor]:
    """Sum of the `triplet_terms` m_ap - m_an over pairs (a, p) and all negatives n of a, and the number above 0.

    items: pairs (N, 2), or (N, 3) with rows l, whose m_ln takes the place of m_an. negative: mask (n, m).
    """
    active = torch.zeros((), dtype=torch.int64, device=items.device)

    def block_sum(matrix: Tensor, block: Tensor) -> Tensor:
        anchor, other, row = block[:, 0], block[:, 1], block[:, 2 if block.shape[1] == 3 else 0]
        to_negative = matrix.index_select(0, row)
        if swap:
            to_negative = torch.minimum(to_negative, matrix.index_select(0, other))
        terms = triplet_terms(matrix[anchor, other][:, None], to_negative, margin=margin, smooth=smooth)
        terms = terms * negative.index_select(0, anchor)
        active.add_((terms.detach() > 0).sum())
        return (terms if weights is None else terms * weights[anchor][:, None]).sum()

    return sum_over_blocks(block_sum, matrix, items), active


class Hinges(NamedTuple):
    """Sum of hinges, its slope (n, n) by the matrix, the number above 0, and the total number."""

    total: Tensor
    slope: Tensor
    active: Tensor
    listed: Tensor

    def mean_(self, reduction: Reduction) -> tuple[Tensor, Tensor]:
        """Mean of the hinges, or of those above 0, and its slope, written over the slope."""
        divisor = (self.listed if reduction == "mean" else self.active).clamp_min(1)
        return self.total / divisor, self.slope.div_(divisor)


def all_hinges(matrix: Tensor, table: ClassTable, *, margin: float, band: bool = False) -> Hinges:
    """Hinges over all triplets, or with `band` over those whose negative is at most `margin` farther than the positive.

    [m_ap - m_an + margin]+ is positive if m_an is below the limit m_ap + margin. So two counts give value and slope in
    O(n^2) memory: the number of an anchor's limits above each entry, and the number of negatives below each limit.

    >>> from levelfield.labels import class_table
    >>> distances = torch.tensor([[0., 1., 3.], [1., 0., 1.], [3., 1., 0.]])
    >>> hinges = all_hinges(distances, class_table(torch.tensor([0, 0, 1])), margin=0.5)
    >>> hinges.total, hinges.active, hinges.listed
    (tensor(0.5000), tensor(1), tensor(2))
    """
    n = len(matrix)
    near = torch.where(table.valid, matrix.gather(1, table.others), -torch.inf)  # distance to each positive
    limits = near + margin
    slope, below = torch.empty_like(matrix), torch.zeros_like(limits)
    total, count = matrix.new_zeros(()), torch.zeros((), dtype=torch.int64, device=matrix.device)
    for rows in row_blocks(matrix):
        negatives = hide_(matrix[rows].clone(), table, torch.inf, rows)
        above_entry, below[rows] = count_below(negatives, limits[rows], out=slope[rows])
        if band:
            # negatives as near as the positive, or nearer, are not in the band
            nearer, fewer = count_below(negatives, near[rows], closed=True)
            above_entry -= nearer
            below[rows] -= fewer
            closed_band, _ = count_below(negatives, limits[rows], closed=True)
            count += (closed_band.sum() - nearer.sum()).long()
        total -= torch.dot(above_entry.view(-1), matrix[rows].reshape(-1))
    total += (below * limits.masked_fill(~table.valid, 0)).sum()
    if not band:
        counts = table.counts
        count = (counts * (n - 1 - counts)).sum()
    return Hinges(total, put_(slope.neg_(), table, below), below.sum().long(), count)


def count_below(
    entries: Tensor, limits: Tensor, *, closed: bool = False, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Number of limits of its row above each entry (r, n), and number of entries below each limit (r, k).

    closed: an entry equal to a limit counts as below it.

    >>> count_below(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[2.0, 3.0]]))
    (tensor([[2., 1., 0.]]), tensor([[1., 2.]]))
    """
    above = torch.empty_like(entries) if out is None else out
    if limits.shape[1] > LOOPED:
        ordered, order = limits.sort(1)
        passed = torch.searchsorted(ordered, entries, right=not closed)  # limits not above the entry
        above.copy_(limits.shape[1] - passed)
        met = torch.zeros(len(limits), limits.shape[1] + 1, dtype=entries.dtype, device=entries.device)
        met.scatter_add_(1, passed, torch.ones_like(entries))
        return above, torch.empty_like(limits).scatter_(1, order, met.cumsum(1)[:, :-1])
    compare = torch.le if closed else torch.lt
    buffer = torch.empty_like(entries)
    below = torch.empty_like(limits)
    above.zero_()
    for k, limit in enumerate(limits.T):
        compare(entries, limit[:, None], out=buffer)
        below[:, k] = buffer.sum(1)
        above += buffer
    return above, below
