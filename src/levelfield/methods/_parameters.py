"""A method's own parameters: groups that share their settings, and published learning rates.

An optimiser such as Adam moves a number by about its learning rate in a step. How far a proxy or a boundary should move
depends on its own scale, not on the rate of the network, so papers give such parameters a rate of their own. Presets
and defaults express it as a multiple of the paper's rate: x100 for proxies beside 1e-4. With `rates: published` a
parameter keeps the rate itself, 1e-2:

    multiplier = max(published multiplier * published rate / rate of the study's head, least)
    least = 1, or the published multiplier if that is smaller

- A published multiplier of 1 says that the parameter has the rate of the network. It stays 1.
- `least`: a parameter that is published to learn faster than the network never learns more slowly than the head.
  Studies with a fast head take few steps: at its published rate, 5e-4, margin's beta moves by at most 0.15 in 300.
- A multiplier that the study file sets is used as it is.
- Some papers set Adam's eps to 1, with rates such as 400. These are not comparable; the defaults are used instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield import objectives
from levelfield.errors import BadSpecification
from levelfield.papers.presets import preset_row

Kind = Literal["network", "weights", "gains"]
# the kinds of groups that have the weight decay of the conditions, by their `decay`
DECAYED: dict[str, tuple[Kind, ...]] = {
    "weights": ("network", "weights"),
    "all": ("network", "weights", "gains"),
    "network": ("network",),
}


@dataclass(frozen=True)
class Group:
    """Parameters that share a learning rate. `lr` is absolute, `multiplier` is relative to the head's rate.

    kind: "network" (trunk and head), or the method's own "weights" or "gains" (boundaries, biases and gains).
    """

    name: str
    parameters: Sequence[nn.Parameter]
    lr: float | None = None
    multiplier: float = 1.0
    weight_decay: float | None = None
    optimiser: str | None = None
    warm: bool = True
    kind: Kind = "weights"

    def decay_under(self, decay: str) -> float | None:
        """Its own weight decay; None: that of the conditions, which say by `decay` what decays."""
        return self.weight_decay if self.weight_decay is not None or self.kind in DECAYED[decay] else 0.0


def own_groups(objective: nn.Module) -> list[Group]:
    """One group per parameter; parameters of a sub-network with the same settings share a group.

    Boundaries, biases and gains are groups of their own: by default they do not decay, which would pull a learned beta
    to 0.
    """
    multipliers: dict[str, float] = getattr(objective, "lr_multipliers", dict)()
    part_of = getattr(objective, "part_of", lambda name: name.split(".")[0])
    optimisers: dict[str, str] = getattr(objective, "optimisers", dict)()
    shared: dict[tuple[str, float, Kind, str | None], list[nn.Parameter]] = {}
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            kind: Kind = "weights" if parameter.dim() > 1 else "gains"
            part, rate = part_of(name), multipliers.get(name, 1.0)
            if part != name and kind == "gains":
                part += "_biases_and_gains"
            shared.setdefault((part, rate, kind, optimisers.get(name)), []).append(parameter)
    parts = [part for part, *_ in shared]
    groups = []
    for (part, rate, kind, optimiser), parameters in shared.items():
        # a sub-network may have several rates, and each group needs a unique name
        name = part if parts.count(part) == 1 else f"{part}_at_{rate:g}"
        groups.append(Group(name, parameters, multiplier=rate, optimiser=optimiser, kind=kind))
    return groups


@torch.no_grad()
def put_proxies(proxies: nn.Parameter | None, class_means: Tensor) -> None:
    """Set proxies (C k, d) to the class means (C, d); several centres of a class are offset by a tenth."""
    if proxies is None:
        return
    each, left = divmod(len(proxies), max(1, len(class_means)))
    if left or not each or proxies.shape[1] != class_means.shape[1]:
        raise BadSpecification(
            f"'proxies: class_means' gives {len(class_means)} means of {class_means.shape[1]} dimensions, but the "
            f"proxies have shape {tuple(proxies.shape)}. Use `proxies: random` for this method."
        )
    means = class_means.to(proxies).repeat_interleave(each, 0, output_size=len(proxies))
    if each > 1:  # equal centres would always get equal gradients
        length = torch.linalg.vector_norm(means, dim=1, keepdim=True)
        means = means + functional.normalize(proxies, dim=1) * length / 10
    proxies.copy_(means)


@dataclass(frozen=True)
class PublishedRate:
    """The rate of a group of parameters: a multiple of `lr`, the rate of the head."""

    multiplier: float
    lr: float

    def under(self, lr: float) -> float:
        """The multiplier beside a head that learns at `lr`.

        >>> PublishedRate(100, 1e-4).under(0.005), PublishedRate(50, 1e-5).under(1e-5), PublishedRate(50, 1e-5).under(1)
        (2.0, 50.0, 1.0)
        """
        kept = self.multiplier * self.lr / lr
        return float(f"{max(kept, min(1.0, self.multiplier)):.6g}")

    @property
    def text(self) -> str:
        return f"x{self.multiplier:g} of {self.lr:g} as published"


def published_rates(objective: str, settings: Mapping[str, Any]) -> dict[str, PublishedRate]:
    """Published rates by the name of their multiplier, of those that a preset or the defaults set.

    >>> published_rates("proxy_anchor", {}), published_rates("proxy_anchor", {"proxy_lr_multiplier": 2})
    ({'proxy_lr_multiplier': PublishedRate(multiplier=100.0, lr=0.0001)}, {})
    """
    if objective not in objectives.names():
        return {}
    facts, preset = objectives.describe(objective), settings.get("preset")
    row = {"settings": {}, "lr": None} if preset is None else preset_row(objective, preset)
    preset_values, preset_rate = row["settings"], row["lr"]
    rates = {}
    for name, usual in facts.defaults.items():
        if not name.endswith("_lr_multiplier") or name in settings:
            continue
        of_preset = name in preset_values and (preset_rate is not None or preset_values[name] == 1)
        multiplier, lr = (preset_values[name], preset_rate) if of_preset else (usual, facts.published_lr)
        if lr is not None and multiplier != 1:
            rates[name] = PublishedRate(float(multiplier), lr)
    return rates
