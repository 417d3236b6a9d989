"""Negatives drawn so that every distance is equally likely, instead of sqrt(2) nearly always."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Geometry, related
from levelfield.miners._contract import MinerFacts, register
from levelfield.miners._draws import draw_uniform, draw_weighted, even, no_triplets
from levelfield.settings import number, one_of


def log_weights(squared_distance: Tensor, *, dim: int, lower: float) -> Tensor:
    """-log q(D) = (2 - dim) log D - (dim - 3)/2 log(1 - D^2/4), D = max(d, lower) (Wu et al. 2017; 002 eq. 23).

    >>> log_weights(torch.tensor([0.01, 0.25]), dim=4, lower=0.5)
    tensor([1.4186, 1.4186])
    """
    squared = squared_distance.clamp_min(lower * lower)
    return squared.log() * ((2 - dim) / 2) - (1 - squared / 4).log() * ((dim - 3) / 2)


@register(
    "distance_weighted",
    MinerFacts(
        paper="Wu et al. 2017; 002 eq. 23-24",
        rule="P(n|a) ~ 1 / q(max(d_an, lower)), q = density of distances on the unit sphere; p uniform in P(a)",
        random=True,
        sources={
            "lower": "Wu et al. 2017, section 4.1; what 002's lambda = 0.5 means in its code",
            "upper": "Wu et al. 2017 code, 001, PML; published 002 numbers have none",
            "per_anchor": "002: one; 001 and Wu: 'positives', an own negative for each positive",
        },
    ),
)
@dataclass(frozen=True)
class DistanceWeighted:
    """Triplets with negatives from all distances. For unit rows.

    `upper`: negatives from there on are left out (None: none is). `empty`: an anchor without any negative left
    draws among all of them (`uniform`) or gives nothing (`skip`, PML). Memory: O(n^2).

    >>> from levelfield.randomness import stream
    >>> geometry = Geometry(torch.eye(3), normalize=True)
    >>> DistanceWeighted()(geometry, torch.tensor([0, 0, 1]), generator=stream(0, "miner")).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """

    lower: float = 0.5
    upper: float | None = 1.4
    empty: Literal["uniform", "skip"] = "uniform"
    per_anchor: Literal["one", "positives"] = "one"

    def __post_init__(self) -> None:
        number("lower", self.lower, above=0)
        if self.upper is not None:
            number("upper", self.upper, above=self.lower)
        one_of("empty", self.empty, ("uniform", "skip"))
        one_of("per_anchor", self.per_anchor, ("one", "positives"))

    @property
    def one_per_anchor(self) -> bool:
        return self.per_anchor == "one"

    def __call__(self, geometry: Geometry, labels: Tensor, *, generator: torch.Generator) -> Tensor:
        if not len(labels):
            return no_triplets(labels)
        positive, law, usable = self._law(geometry, labels)
        if self.per_anchor == "positives":
            pairs = (positive & usable[:, None]).nonzero()
            return torch.column_stack((pairs, draw_weighted(law.index_select(0, pairs[:, 0]), generator)))
        chosen_p, chosen_n = draw_uniform(positive, generator), draw_weighted(law, generator)
        anchors = torch.arange(len(labels), device=labels.device)
        return torch.stack((anchors, chosen_p, chosen_n), 1)[usable]

    def probabilities(self, geometry: Geometry, labels: Tensor) -> dict[str, Tensor]:
        """`positive`, `negative`: (n, n) laws given the anchor; `valid`: (n,) 1 where the anchor gives a triplet."""
        positive, law, usable = self._law(geometry, labels)
        return {
            "positive": even(positive & usable[:, None], law.dtype),
            "negative": law * usable[:, None],
            "valid": usable.long(),
        }

    def _law(self, geometry: Geometry, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Positives, the law of the negative (n, n), and who gives a triplet."""
        positive, negative = related(labels)
        squared = geometry.squared_distance.detach()
        # Antipodes have infinite weight; a bare "< 4" would depend on how the distance was rounded.
        kept = negative & (squared < 4 - 4e-6)
        if self.upper is not None:
            kept &= squared.clamp_min(self.lower**2) < self.upper**2
        weights = log_weights(squared, dim=geometry.rows.shape[1], lower=self.lower)
        # The row's own maximum is taken off: with one for the whole batch, rows underflow in 512 dimensions.
        law = weights.masked_fill(~kept, -torch.inf).softmax(1)
        some = kept.any(1)
        if self.empty == "uniform":
            law = torch.where(some[:, None], law, even(negative, law.dtype))
            some = negative.any(1)
        else:
            law = law.masked_fill(~some[:, None], 0)  # softmax of nothing is nan
        return positive, law, positive.any(1) & some
