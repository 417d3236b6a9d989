"""Quadruplet: the triplet hinge, and a hinge between the positive pair and a pair of negatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import Geometry, widest
from levelfield.labels import ClassTable, class_masks, class_table, hide_, positive_pairs, put_, row_blocks, to_device
from levelfield.miners import MinerChoice
from levelfield.miners._draws import uniforms
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, register
from levelfield.objectives._parts.closed import Matrix, closed
from levelfield.objectives._parts.sums import mean
from levelfield.objectives.triplet import Hinges, all_hinges, count_below, sum_over_triplets
from levelfield.settings import Share


def quadruplet_terms(
    to_positive: Tensor, to_negative: Tensor, between_negatives: Tensor, *, margin1: float, margin2: float
) -> tuple[Tensor, Tensor]:
    """[d_ap - d_an + margin1]+ and [d_ap - d_ln + margin2]+ (roth2020 eq. 14, whose second term must start with d_ap).

    >>> half, one = torch.tensor([0.5]), torch.tensor([1.0])
    >>> quadruplet_terms(half, half, one, margin1=1.0, margin2=0.75)
    (tensor([1.]), tensor([0.2500]))
    """
    return (to_positive - to_negative + margin1).relu(), (to_positive - between_negatives + margin2).relu()


def draw_fourth(labels: Tensor, triplets: Tensor, generator: torch.Generator) -> Tensor:
    """For each triplet (t, 3), draw a sample (t,) of neither the anchor's nor the negative's class.

    -1 if there is none, that is, with fewer than three classes.

    >>> triplets = torch.tensor([[0, 1, 2], [0, 1, 3]])
    >>> draw_fourth(torch.tensor([7, 7, 4, 5]), triplets, torch.Generator().manual_seed(0))
    tensor([3, 2])
    """
    ordered, order = labels.sort(stable=True)
    starts = torch.searchsorted(ordered, labels)
    sizes = torch.searchsorted(ordered, labels, right=True) - starts
    ends = triplets[:, ::2]  # anchor and negative: exclude their classes, two ranges of the sorted batch
    start, which = starts[ends].sort(1)
    size = sizes[ends].gather(1, which)
    size[:, 1] *= start[:, 0] != start[:, 1]  # a switched triplet has only one class
    free = len(labels) - size.sum(1)
    position = torch.minimum((uniforms(len(triplets), labels, generator) * free).long(), free - 1)
    for at, width in zip(start.T, size.T, strict=True):
        position += width * (position >= at)
    return torch.where(free > 0, order[position.clamp(0, max(0, len(labels) - 1))], -1)


@register(
    "quadruplet",
    ObjectiveFacts(
        paper="Chen et al. 2017",
        equation="roth2020 eq. 14",
        formula="mean [d_ap - d_an + margin1]+ + mean [d_ap - d_ln + margin2]+, l of a third class",
        use="When triplets leave classes too wide: positive pairs must also be closer than pairs of two negatives.",
        tuples="triplets",
        batch="3 classes, 2 per class",
        least=(3, 2),
        miners=("distance_weighted", "random", "semihard", "softhard", "batch_hard", "all"),
        sources={
            "margin1": "roth2020 A.1 (its code: 0.2)",
            "margin2": "roth2020 A.1 (its code: 0.2)",
            "squared": "roth2020 eq. 14 (Chen et al. square)",
            "miner": "roth2020 A.2; the fourth sample is uniform over the other classes",
        },
        search={"margin1": (0.1, 1.5, "log"), "margin2": (0.05, 1.0, "log"), "squared": [False, True]},
    ),
)
class Quadruplet(Objective):
    """Quadruplet loss on mined triplets with a random fourth sample each, or on explicit quadruplets (t, 4).

    The second term skips tuples without a fourth sample (-1 in explicit tuples). `miner="all"` uses all triplets for
    the first term and all quadruplets for the second, without listing them. Memory: O(batch * batch).

    >>> Quadruplet(margin1=0.25, margin2=0.5)(torch.eye(6), torch.tensor([0, 0, 1, 1, 2, 2]))
    tensor(0.7500)
    """

    margin1: float = 1.0
    margin2: float = 0.5
    squared: bool = False
    normalize: bool = True
    miner: MinerChoice = "distance_weighted"
    switch: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__(margin=self.margin1)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        geometry = Geometry(inputs.embeddings, normalize=self.normalize)
        quadruplets = inputs.tuples
        if not isinstance(quadruplets, Tensor) or quadruplets.dim() != 2 or quadruplets.shape[1] != 4:
            triplets = self.triplets_of(geometry, inputs)
            if triplets is None:
                return self._of_all(geometry, inputs)
            quadruplets = torch.column_stack((triplets, draw_fourth(inputs.labels, triplets, inputs.generator)))
        anchor, positive, negative, fourth = quadruplets.T
        exists = fourth >= 0
        left = torch.cat((anchor, anchor, torch.where(exists, fourth, negative)))
        right = torch.cat((positive, negative, negative))
        distance = geometry.distance_of(left, right, squared=self.squared)
        first, second = quadruplet_terms(*distance.chunk(3), margin1=self.margin1, margin2=self.margin2)
        second = second * exists
        self.active = (first.detach() > 0).sum() + (second.detach() > 0).sum()
        weights = inputs.weights_of(anchor)
        return {"triplet": mean(first, None, "mean", weights), "negatives": mean(second, exists, "mean", weights)}

    def quick(self, inputs: LossInputs) -> Tensor | None:
        if not self.takes_everything(inputs):
            return None
        geometry, table = Geometry(inputs.embeddings.detach(), normalize=self.normalize), class_table(inputs.labels)
        matrix: Matrix = "squared_distance" if self.squared else "distance"
        distance: Tensor = getattr(geometry, matrix)
        first = all_hinges(distance, table, margin=self.margin1)
        second = _hinges_between_negatives(distance, table, margin=self.margin2)
        self.active = first.active + second.active
        (triplet, slope), (negatives, other_slope) = first.mean_("mean"), second.mean_("mean")
        terms = {"triplet": triplet, "negatives": negatives}
        return closed(self, inputs, geometry, terms, slope.add_(other_slope), matrix)

    def _of_all(self, geometry: Geometry, inputs: LossInputs) -> dict[str, Tensor]:
        """The second term uses all negative pairs, except those with a member of the anchor's class."""
        _, negative = class_masks(inputs.labels)
        distance = geometry.squared_distance if self.squared else geometry.distance
        pairs, members = positive_pairs(inputs.labels), _with_members(class_table(inputs.labels))
        anchor, other = pairs.T
        first, first_active = sum_over_triplets(distance, pairs, negative, inputs.weights, margin=self.margin1)
        inside, inside_active = sum_over_triplets(distance, members, negative, inputs.weights, margin=self.margin2)
        limit, negatives = distance[anchor, other] + self.margin2, distance[negative].sort().values
        nearer = torch.searchsorted(negatives.detach(), limit.detach())
        sums = functional.pad(negatives.to(widest(negatives.device)).cumsum(0), (1, 0))[nearer].to(limit.dtype)
        between, weights = nearer * limit - sums, inputs.weights_of(anchor)
        second = (between if weights is None else between * weights).sum() - 2 * inside  # a pair counts in both orders
        self.active = first_active + nearer.sum() - 2 * inside_active
        triplets = negative.sum(1)[anchor].sum()
        quadruplets = len(pairs) * len(negatives) - 2 * negative.sum(1)[members[:, 0]].sum()
        return {"triplet": first / triplets.clamp_min(1), "negatives": second / quadruplets.clamp_min(1)}


def _hinges_between_negatives(distance: Tensor, table: ClassTable, *, margin: float) -> Hinges:
    """[d_ap - d_ln + margin]+ over all quadruplets, counted as in `all_hinges`, in O(n^2) memory."""
    n, k = table.others.shape
    limits = torch.where(table.valid, distance.gather(1, table.others), -torch.inf) + margin
    members, exists = _members(table)
    inside = limits[members].masked_fill_(~exists[:, :, None], -torch.inf).flatten(1)  # all limits of the row's class
    slope, below, below_inside = torch.empty_like(distance), limits.new_zeros(1, n * k), torch.empty_like(inside)
    wide = widest(distance.device)
    total = torch.zeros((), dtype=wide, device=distance.device)
    for rows in row_blocks(distance):
        negatives = hide_(distance[rows].clone(), table, torch.inf, rows)
        every, met = count_below(negatives.view(1, -1), limits.view(1, -1))
        above, below_inside[rows] = count_below(negatives, inside[rows], out=slope[rows])
        above.mul_(-2).add_(every.view_as(above))  # exclude pairs with a member of the anchor's class
        below += met
        total -= torch.dot(above.view(-1), distance[rows].reshape(-1))
    below = below.view(n, k).index_add_(0, members.reshape(-1), below_inside.view(-1, k), alpha=-2)
    total += (below.to(wide) * limits.masked_fill(~table.valid, 0)).sum()
    sizes = table.counts + 1
    count = (table.counts * ((n - sizes).sum() - 2 * sizes * (n - sizes))).sum()
    slope = put_(slope.neg_(), table, below)
    return Hinges(total.to(distance.dtype), slope, below.sum(dtype=wide).long(), count)


def _members(table: ClassTable) -> tuple[Tensor, Tensor]:
    """Each row and its positives (n, 1 + k), and the mask of entries that are not padding."""
    anchors = torch.arange(len(table.others), device=table.others.device)[:, None]
    exists = torch.cat((torch.ones_like(anchors, dtype=torch.bool), table.valid), 1)
    return torch.cat((anchors, table.others), 1), exists


def _with_members(table: ClassTable) -> Tensor:
    """All (anchor, positive, member of their class), (m, 3)."""
    host = table.on_host
    members, exists = _members(host)
    row, position, member = (host.valid[:, :, None] & exists[:, None, :]).nonzero().T
    return to_device(torch.stack((row, host.others[row, position], members[row, member]), 1), table.others.device)
