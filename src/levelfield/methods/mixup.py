"""Manifold mixup for metric learning (roth2020 H, eq. 31): mix hidden states and classes of two images.

Meant as a control: roth2020 finds more compressed embeddings and a lower recall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from levelfield.batching import Batching
from levelfield.errors import BadSpecification
from levelfield.labels import on_device, on_host, to_device
from levelfield.methods._contract import Assembly, Batch, Method, Setting, option, total_of
from levelfield.objectives import Objective
from levelfield.settings import Positive, check_names

if TYPE_CHECKING:
    from levelfield.embedder import Trunk

MOST_DEPTHS = 3  # Verma et al. 2019, code: one of the input and the first two stages, drawn for every batch


def mix(hidden: Tensor, share: float, partner: Tensor) -> Tensor:
    """share * h_i + (1 - share) * h_partner(i)."""
    return torch.lerp(hidden, hidden.index_select(0, partner), 1 - share)  # exact if both are equal


class Entry(NamedTuple):
    """One of the two classes of each mixed row, and its weight as an anchor of that class."""

    labels: Tensor
    weights: Tensor


def entries(labels: Tensor, others: Tensor, share: float) -> tuple[Entry, Entry]:
    """The rows' own classes and those of their partners. If both are equal, the weights are 1 and 0.

    >>> first, second = entries(torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0]), 0.75)
    >>> first.weights, second.weights
    (tensor([0.7500, 1.0000, 0.7500]), tensor([0.2500, 0.0000, 0.2500]))
    """
    same = labels == others
    first = torch.full(labels.shape, share, device=labels.device).masked_fill(same, 1.0)
    return Entry(labels, first), Entry(others, torch.full_like(first, 1 - share).masked_fill(same, 0.0))


class Mixed(Method):
    """An objective on mixed rows: the weighted sum of its loss with the rows' own classes and with their partners'.

    Tuples are mined separately for each call, on the mixed rows. The objective keeps its own divisor: with one triplet
    per anchor the triplet loss is eq. 31, and with a share of 1 every objective equals its plain form.

    Shares are from Beta(alpha, alpha), at one of `layers`, both drawn for every batch. A layer is a stage of the trunk
    (its output is mixed), "input" (the images) or "features" (the input of the head). Default: the first three
    trainable layers; with a frozen trunk only "features".
    """

    divisible = False

    def __init__(
        self,
        objective: nn.Module,
        *,
        alpha: Positive = 2.0,  # roth2020 H
        layers: Any = None,
        **shared: Any,
    ) -> None:
        super().__init__(objective, **shared)
        layers = (layers,) if isinstance(layers, str) else layers
        if layers is not None and (not isinstance(layers, list | tuple) or not layers):
            raise BadSpecification(f"'layers' of 'mixup' is {layers!r}; name one or more layers, or leave the key out.")
        self.alpha, self.layers = alpha, layers
        self._active: list[Tensor | int | None] = []
        if not (isinstance(objective, Objective) and objective.takes_weights):
            raise BadSpecification("'mixup' needs an objective that takes a weight per anchor; this one does not.")

    @property
    def separable(self) -> bool:
        return False  # partners come from the whole batch

    def depths(self, trunk: Trunk) -> Sequence[str]:
        """The layers to mix in this trunk. A layer below the cut is refused."""
        if self.layers is None:
            return trunk.depths[:MOST_DEPTHS]
        for layer in self.layers:
            if layer not in trunk.depths:
                raise BadSpecification(
                    f"mixup cannot mix at '{layer}' with cut '{trunk.cut}': the layer is below the cut or does not "
                    f"exist. Use one of: {', '.join(trunk.depths)}."
                )
        return self.layers

    def draw(self, count: int, depths: Sequence[str], generator: torch.Generator) -> tuple[float, Tensor, str]:
        """Draw the share, the partner of each of `count` rows, and the layer, once for the whole batch."""
        uniform, fraction = torch.rand(2, generator=generator, dtype=torch.float64, device=generator.device).tolist()
        partner = torch.randperm(count, generator=generator, device=generator.device)
        from scipy.special import betaincinv

        share = float(betaincinv(self.alpha, self.alpha, uniform))
        return share, partner, depths[int(fraction * len(depths))]

    def check(self, trunk: Trunk, batching: Batching) -> None:
        self.depths(trunk)
        if roles := self.used_roles(batching.roles):
            raise BadSpecification(
                f"'mixup' mixes classes, but this objective needs the roles that batching '{batching.name}' gives "
                f"to images of a class ({', '.join(roles)})."
            )
        if batching.needs_memory:
            raise BadSpecification(
                f"Batching '{batching.name}' needs embeddings of images, but 'mixup' has only those of mixed images."
            )

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        trunk: Any = embedder.trunk
        share, partner, depth = self.draw(len(batch.labels), self.depths(trunk), generator)
        others = on_device(on_host(batch.labels).index_select(0, partner.cpu()), batch.labels.device)
        partner = to_device(partner, batch.labels.device)
        rows = self.embed(embedder, batch.inputs, change=(depth, lambda hidden: mix(hidden, share, partner)))
        return self.terms(rows, batch.labels, others, share, generator)

    def terms(
        self, rows: Tensor, labels: Tensor, others: Tensor, share: float, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The loss of mixed rows (b, d): `own` classes, and those of their `partners`."""
        objective: Any = self.objective
        terms: dict[str, Tensor] = {}
        self._active = []
        both = entries(on_host(labels), on_host(others), share)
        for name, classes, entry in zip(("own", "partners"), (labels, others), both, strict=True):
            if name == "partners" and not entry.weights.any():
                break  # no row is mixed with another class: the plain loss
            weights = None if (entry.weights == 1).all() else to_device(entry.weights, labels.device)
            terms[name] = objective(rows, classes, weights=weights, generator=generator)
            self._active.append(super().active())
        return terms

    def active(self) -> Tensor | int | None:
        return total_of(self._active)

    def counts(self) -> dict[str, float]:
        names = ("active_own", "active_partners")
        both = zip(names, self._active, strict=False)
        return super().counts() | {name: float(count) for name, count in both if count is not None}

    def deviations(self, setting: Setting) -> dict[str, Any]:
        return super().deviations(setting) | {"hidden_states": "changed"}


@option(
    "mixup",
    kind=Mixed,
    conflicts={
        "memory": "a mixed image has two classes",
        "sharded": "a mixed image has two classes",
        "matryoshka": "the loss of a mixed image is defined for whole embeddings",
    },
)
def with_mixup(assembly: Assembly, setting: Any) -> Assembly:
    """Mix hidden states and classes of two images: `mixup: true`, or its settings."""
    settings = {} if setting is True else setting
    if not isinstance(settings, Mapping):
        raise BadSpecification(f"'mixup' is {settings!r}; it must be true, or settings such as {{alpha: 2}}.")
    check_names("The mixup", settings, ("alpha", "layers"))
    return replace(assembly, make_method=partial(Mixed, **settings))
