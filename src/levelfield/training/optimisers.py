"""Optimisers by name, and the learning rate at each step as a pure function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.embedder import Embedder
from levelfield.errors import BadSpecification, Unfair
from levelfield.methods import Group
from levelfield.settings import number
from levelfield.training.conditions import Conditions
from levelfield.training.shards import Shards

_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"eps": "eps", "fused": True}),
    "adamw": (torch.optim.AdamW, {"eps": "eps", "fused": True}),
    "radam": (torch.optim.RAdam, {"eps": "eps", "decoupled_weight_decay": True}),  # as in the code of Liu et al. 2020
    "rmsprop": (torch.optim.RMSprop, {"eps": "eps", "momentum": "momentum", "alpha": "rmsprop_alpha"}),
    "sgd": (torch.optim.SGD, {"momentum": "momentum", "fused": True}),
}


def build(groups: Sequence[Group], conditions: Conditions, *, lr: float | None = None) -> list[Optimizer]:
    """Create one optimiser per kind that the groups use. Each parameter group keeps its name and base rate.

    >>> weight = nn.Parameter(torch.zeros(2, 2))
    >>> [optimiser] = build([Group("head", [weight], multiplier=2.0)], Conditions(lr=0.1))
    >>> optimiser.param_groups[0]["name"], optimiser.param_groups[0]["base_lr"]
    ('head', 0.2)
    """
    head_lr = conditions.lr if lr is None else lr
    kinds: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        multiplier = number(f"lr_of_{group.name}", group.multiplier, least=0)
        rate = number("lr", head_lr, least=0) * multiplier if group.lr is None else group.lr
        rate = number(f"lr of {group.name}", rate, least=0)
        decay = group.decay_under(conditions.decay)
        decay = number(f"weight_decay_of_{group.name}", conditions.weight_decay if decay is None else decay, least=0)
        entry = {"name": group.name, "params": list(group.parameters), "warm": group.warm}
        entry |= {"lr": rate, "base_lr": rate, "weight_decay": decay}
        kinds.setdefault(group.optimiser or conditions.optimiser, []).append(entry)
    optimisers = []
    for name, entries in kinds.items():
        if name not in _KINDS:
            raise BadSpecification(f"Unknown optimiser '{name}'. There are: {', '.join(sorted(_KINDS))}.")
        kind, options = _KINDS[name]
        named = {key: getattr(conditions, value) for key, value in options.items() if isinstance(value, str)}
        optimisers.append(kind(entries, **{**options, **named}))
    return optimisers


def check_groups(module: nn.Module, groups: Sequence[Group]) -> None:
    """Check that every trainable parameter of `module` is in exactly one group."""
    seen: dict[int, str] = {}
    registered = {id(parameter) for parameter in module.parameters()}
    names = [group.name for group in groups]
    for group in groups:
        if names.count(group.name) > 1:
            raise Unfair(f"Two optimiser groups are called '{group.name}': give each a unique name for the ledger.")
        for parameter in group.parameters:
            if id(parameter) in seen:
                raise Unfair(f"A parameter is in two optimiser groups, '{seen[id(parameter)]}' and '{group.name}'.")
            if id(parameter) not in registered:
                raise Unfair(
                    f"The optimiser group '{group.name}' contains a parameter {tuple(parameter.shape)} that is not "
                    "part of the method, a hidden extra parameter: make it an attribute (nn.Parameter, "
                    "nn.ParameterList), so that it is counted and saved."
                )
            seen[id(parameter)] = group.name
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and id(parameter) not in seen:
            raise Unfair(
                f"The trainable parameter '{name}' {tuple(parameter.shape)} is in no optimiser group: "
                "return it from `groups()`, or set requires_grad to False."
            )


def factor(step: int, conditions: Conditions, *, drops: int = 0) -> float:
    """Factor of the base rates at `step` (0-based). `drops`: number of reductions by schedule 'plateau' so far.

    >>> [round(factor(s, Conditions(steps=110, warmup=10)), 3) for s in (0, 9, 60, 109)]
    [0.1, 1.0, 0.5, 0.0]
    """
    if step < conditions.warmup:
        return (step + 1) / conditions.warmup
    if conditions.schedule == "cosine":
        progress = (step - conditions.warmup) / max(1, conditions.steps - conditions.warmup)
        return 0.5 * (1 + math.cos(math.pi * progress))
    if conditions.schedule == "step":
        at = conditions.step_at
        passed = step // conditions.step_every if at is None else sum(step >= drop for drop in at)
        return float(conditions.step_factor**passed)
    return float(conditions.step_factor**drops) if conditions.schedule == "plateau" else 1.0


def set_rates(optimisers: Sequence[Optimizer], rate: float, *, alpha: float = 0.99) -> None:
    """Set the learning rates to `rate` times the base rates. alpha: share of the past in rmsprop's mean of squares."""
    for group in (group for optimiser in optimisers for group in optimiser.param_groups):
        group["lr"] = group["base_lr"] * rate
        if "alpha" in group:
            group["alpha"] = alpha


def freeze_trunk(embedder: Embedder, optimisers: list[Optimizer], frozen: bool) -> None:
    """While frozen, groups that are not warm get no gradient, so that their optimiser state is unchanged."""
    embedder.train()  # BatchNorm follows the conditions: with `batch_norm: train`, its statistics move
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                parameter.requires_grad_(group["warm"] or not frozen)


def clip(optimisers: list[Optimizer], conditions: Conditions, shards: Shards) -> Tensor | None:
    """Clip the numbers of all gradients to `clip_value`, then their total norm to `clip`; return the norm between."""
    parameters = [p for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
    if conditions.clip_value is not None:
        torch.nn.utils.clip_grad_value_(parameters, conditions.clip_value)
    if conditions.clip is None:
        return None
    common = [p.grad for p in parameters if p.grad is not None and p not in shards]
    norms = [*map(torch.linalg.vector_norm, common), *shards.gradient_norms()]
    if not norms:
        return torch.zeros(())
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    factor = (conditions.clip / (norm + 1e-6)).clamp(max=1.0)  # as in torch.nn.utils.clip_grad_norm_
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(factor)
    return norm
