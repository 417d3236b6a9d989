"""Negatives drawn so that every distance is equally likely, instead of nearly always sqrt(2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry
from levelfield.labels import ClassTable, class_table, hide_, row_blocks
from levelfield.miners._contract import BaseMiner, MinerFacts, register
from levelfield.miners._draws import all_known, draw_positive, negative_at, select_rows, uniforms
from levelfield.settings import Positive, number

_ANTIPODES = 4 - 4e-6  # antipodes have infinite weight; a plain 4 would depend on rounding
_NEVER = -1e30  # log weight of excluded entries: effectively -inf, but differences are never NaN


@register(
    "distance_weighted",
    MinerFacts(
        paper="Wu et al. 2017; roth2020 eq. 23-24",
        rule="P(n|a) ~ 1 / q(max(d_an, lower)), q = density of distances on the unit sphere; p uniform in P(a)",
        random=True,
        search={"lower": (0.1, 1.0, "linear")},
        sources={
            "lower": "Wu et al. 2017, section 4.1; equals lambda = 0.5 in roth2020's code",
            "upper": "Wu et al. 2017 code, fehervari2019, PML; published roth2020 numbers have none",
            "per_anchor": "roth2020: one; fehervari2019 and Wu: 'positives', a separate negative for each positive",
        },
    ),
)
@dataclass(frozen=True)
class DistanceWeighted(BaseMiner):
    """Triplets with negatives from all distances. For unit rows.

    `upper`: negatives at or beyond this distance are excluded (None: none). `empty`: an anchor without any negative
    left draws from all negatives (`uniform`) or is skipped (`skip`, PML). Memory: O(n^2).

    >>> DistanceWeighted()(torch.eye(3), torch.tensor([0, 0, 1])).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """

    lower: Positive = 0.5
    upper: float | None = 1.4
    empty: Literal["uniform", "skip"] = "uniform"
    per_anchor: Literal["one", "positives"] = "one"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upper is not None:
            number("upper", self.upper, above=self.lower)

    @property
    def one_per_anchor(self) -> bool:
        return self.per_anchor == "one"

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tensor:
        table = class_table(labels, len(geometry.rows))
        if self.per_anchor == "positives":
            chosen_p, asked = table.others, table.valid
        else:
            chosen_p, asked = draw_positive(table, generator)[:, None], table.valid[:, :1]
        uniform = uniforms(asked.numel(), labels, generator).view(asked.shape)
        chosen_n, gives = self._draw(geometry, table, uniform)
        anchors = torch.arange(len(chosen_p), device=labels.device)[:, None].expand_as(chosen_p)
        triplets = torch.stack((anchors, chosen_p, chosen_n), 2).view(-1, 3)
        if self.empty == "uniform":  # every anchor with a negative has one: the labels alone decide
            host = table.on_host
            asked = host.valid[:, : asked.shape[1]]
            return select_rows(triplets, (asked & (host.counts < len(labels) - 1)[:, None]).view(-1))
        kept = (asked & gives[:, None]).view(-1)
        return triplets if all_known(kept) else triplets[kept]

    def _draw(self, geometry: Geometry, table: ClassTable, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """A negative for each of the numbers (n, draws), and a mask of rows with any.

        log weight = (2 - dim) log D - (dim - 3)/2 log(1 - D^2/4), D = max(d, lower), in base 2, less its maximum in the
        row: with one maximum for the batch, rows underflow in 512 dimensions.
        """
        squared, dim = geometry.squared_distance.detach(), geometry.rows.shape[1]
        lowest = self.lower**2
        highest = _ANTIPODES if self.upper is None else min(_ANTIPODES, self.upper**2)
        chosen = torch.empty(uniform.shape, dtype=torch.int64, device=uniform.device)
        some = torch.empty(len(uniform), dtype=torch.bool, device=uniform.device)
        # u * total must stay below total, beyond which no column has weight
        below_one = uniform.to(squared.dtype).clamp_max(1 - torch.finfo(squared.dtype).eps)
        for rows in row_blocks(squared):
            clipped = squared[rows].clamp(lowest, highest)
            weights = clipped.log2().mul_((2 - dim) / 2)
            left_out = torch.ge(clipped, highest, out=torch.empty_like(clipped))
            weights.add_(clipped.mul_(-0.25).add_(1).log2_(), alpha=(3 - dim) / 2).add_(left_out, alpha=_NEVER)
            top = hide_(weights, table, _NEVER, rows).amax(1, keepdim=True)
            torch.gt(top[:, 0], _NEVER / 2, out=some[rows])
            running = weights.sub_(top).exp2_().cumsum(1)
            torch.searchsorted(running, below_one[rows] * running[:, -1:], right=True, out=chosen[rows])
        if self.empty == "uniform" and not all_known(some):
            anyone = torch.stack([negative_at(table, column) for column in uniform.T], 1)
            chosen, some = torch.where(some[:, None], chosen, anyone), table.counts < len(table.order) - 1
        return chosen, some
