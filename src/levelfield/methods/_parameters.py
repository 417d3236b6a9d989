"""A method's own parameters, in groups that share their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.errors import BadSpecification


@dataclass(frozen=True)
class Group:
    """Parameters that share a learning rate. `lr` is absolute, `multiplier` is relative to the head's rate."""

    name: str
    parameters: Sequence[nn.Parameter]
    lr: float | None = None
    multiplier: float = 1.0
    weight_decay: float | None = None
    optimiser: str | None = None
    warm: bool = True


def own_groups(objective: nn.Module) -> list[Group]:
    """One group per parameter; parameters of a sub-network with the same settings share a group.

    Boundaries, biases and gains are not weights: decay would pull a learned beta to 0.

    >>> from levelfield import objectives
    >>> made = objectives.create("message_passing", num_classes=3, dim=8)
    >>> [(group.name, group.weight_decay) for group in own_groups(made)][-2:]
    [('network', None), ('network_biases_and_gains', 0.0)]
    """
    multipliers: dict[str, float] = getattr(objective, "lr_multipliers", dict)()
    part_of = getattr(objective, "part_of", lambda name: name.split(".")[0])
    optimisers: dict[str, str] = getattr(objective, "optimisers", dict)()
    found: dict[tuple[str, float, float | None, str | None], list[nn.Parameter]] = {}
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            decay = None if parameter.dim() > 1 else 0.0
            part, rate = part_of(name), multipliers.get(name, 1.0)
            if part != name and decay is not None:
                part += "_biases_and_gains"
            found.setdefault((part, rate, decay, optimisers.get(name)), []).append(parameter)
    parts = [part for part, *_ in found]
    return [
        # a sub-network may have several rates, and each group needs a unique name
        Group(
            part if parts.count(part) == 1 else f"{part}_at_{rate:g}",
            own,
            multiplier=rate,
            weight_decay=decay,
            optimiser=kind,
        )
        for (part, rate, decay, kind), own in found.items()
    ]


@torch.no_grad()
def put_proxies(proxies: nn.Parameter | None, class_means: Tensor) -> None:
    """Proxies (C k, d) at the class means (C, d); several centres of a class are offset by a tenth.

    >>> centres = nn.Parameter(torch.eye(2))
    >>> put_proxies(centres, torch.tensor([[1.0, 0.0]]))
    >>> centres.data
    tensor([[1.1000, 0.0000],
            [1.0000, 0.1000]])
    """
    if proxies is None:
        return
    each, left = divmod(len(proxies), max(1, len(class_means)))
    if left or not each or proxies.shape[1] != class_means.shape[1]:
        raise BadSpecification(
            f"'proxies: class_means' gives {len(class_means)} means of {class_means.shape[1]} dimensions, but the "
            "proxies "
            f"have shape {tuple(proxies.shape)}. Use `proxies: random` for this method."
        )
    means = class_means.repeat_interleave(each, 0)
    if each > 1:  # equal centres would always get equal gradients
        length = torch.linalg.vector_norm(means, dim=1, keepdim=True)
        means = means + functional.normalize(proxies, dim=1) * length / 10
    proxies.copy_(means)
