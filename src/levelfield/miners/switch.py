"""The rho-regularisation of 002 (`p_switch`): now and then samples of one class are pushed apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry, related
from levelfield.miners._contract import Miner
from levelfield.miners._draws import draw_uniform, even, uniforms
from levelfield.settings import number


@dataclass(frozen=True)
class Switched:
    """With chance `switch` a tuple (a, p, n) of `miner` becomes (a, a, another sample of a's class).

    The plain tuples are drawn first, so those that are not switched are the same for every `switch`.

    >>> from levelfield.miners import create
    >>> from levelfield.randomness import stream
    >>> geometry = Geometry(torch.eye(3), normalize=True)
    >>> create("random", switch=1.0)(geometry, torch.tensor([0, 0, 1]), generator=stream(0, "miner")).tolist()
    [[0, 0, 1], [1, 1, 0]]
    """

    miner: Miner
    switch: float

    def __post_init__(self) -> None:
        number("switch", self.switch, least=0, most=1)
        if not getattr(self.miner, "one_per_anchor", False):
            raise BadSpecification(f"'switch' needs a miner that gives one triplet per anchor; {self.miner} does not.")

    one_per_anchor = True

    def __call__(self, geometry: Geometry, labels: Tensor, *, generator: torch.Generator) -> Tensor:
        triplets = self.miner(geometry, labels, generator=generator)
        assert isinstance(triplets, Tensor)  # one_per_anchor says so
        if not len(triplets):
            return triplets
        switched = uniforms(len(triplets), triplets, generator) < self.switch
        anchors = triplets[switched, 0]
        positive, _ = related(labels)
        result = triplets.clone()
        if len(anchors):
            others = draw_uniform(positive.index_select(0, anchors), generator)
            result[switched] = torch.stack((anchors, anchors, others), 1)
        return result

    def probabilities(self, geometry: Geometry, labels: Tensor) -> dict[str, Tensor]:
        """`switch` (n,), the laws given a switch, and the marginals `positive`, `negative` over both cases."""
        plain = self.miner.probabilities(geometry, labels)  # type: ignore[attr-defined]
        gives = plain["positive"].sum(1) > 0
        dtype = plain["positive"].dtype
        itself = torch.diag(gives.to(dtype))
        others = even(related(labels)[0] & gives[:, None], dtype)
        return {
            "switch": gives.to(dtype) * self.switch,
            "positive_switched": itself,
            "negative_switched": others,
            "positive": (1 - self.switch) * plain["positive"] + self.switch * itself,
            "negative": (1 - self.switch) * plain["negative"] + self.switch * others,
        }
