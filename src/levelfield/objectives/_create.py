"""Create objectives by name: registered ones, or any `nn.Module` from a file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.errors import BadInput, BadSpecification
from levelfield.miners import MinerChoice
from levelfield.objectives._contract import Facts, LossInputs, Objective, registry
from levelfield.objectives._pml import pml_facts, pml_objective
from levelfield.papers.presets import preset_settings, presets
from levelfield.registry import is_pml_reference
from levelfield.settings import accepted, check_settings


def names() -> list[str]:
    """Names of all objectives."""
    return registry.names()


def describe(name: str) -> Facts:
    """The facts of the objective `name`: paper, formula, defaults, batch layout, suitable miners, search ranges, and
    each paper's settings per dataset.

    >>> describe("proxy_anchor").needs
    ('num_classes', 'dim')
    >>> describe("contrastive").presets["mlrc/cars"]["neg_margin"]
    0.5409
    """
    if is_pml_reference(name):
        return pml_facts(name)
    facts: Facts | None = registry.facts(name)
    if facts is None:
        raise BadInput(f"'{name}' is registered without facts: see `levelfield.objectives.register`.")
    return replace(facts, presets=presets(name))


def create(
    name: str,
    *,
    num_classes: int | None = None,
    dim: int | None = None,
    miner: MinerChoice | None = None,
    generator: torch.Generator | None = None,
    preset: str | None = None,
    **hyperparameters: Any,
) -> Objective:
    """The objective `name`, `my_losses.py:MyLoss`, or `pml:CircleLoss` of pytorch-metric-learning.

    Args:
        name: see `names()`; a class such as `objectives.Margin` does the same with typed keywords.
        num_classes: number of training classes; passed only to objectives that take it, like `dim` and `generator`.
        dim: embedding size.
        miner: a name, one name with settings (`{"semihard": {"mode": "closest"}}`) or a miner; default: the
            objective's own.
            generator: random numbers for the initialisation, e.g. of proxies.
        preset: a paper's settings: "roth2020", "roth2020/cars", "mlrc/cub" (all: `describe(name).presets`). Other
            arguments override it; the defaults without a preset are the normative form.
        **hyperparameters: the objective's own (`describe(name).defaults`).

    Returns:
        A module: `objective(embeddings, labels)` with embeddings (batch, dim) and labels (batch,) is the loss, ().

    >>> objective = create("margin", beta=0.6, miner="distance_weighted")
    >>> round(objective(torch.eye(4), torch.tensor([0, 0, 1, 1])).item(), 4)
    1.0142
    >>> create("margin", num_classes=4, preset="roth2020/cub/beta06").beta.data
    tensor([0.6000, 0.6000, 0.6000, 0.6000])
    """
    if is_pml_reference(name):
        if preset is not None:
            preset_settings(name, preset)
        return pml_objective(name, hyperparameters, num_classes=num_classes, dim=dim, miner=miner, generator=generator)
    entry = registry.get(name)
    check_settings(f"objective '{name}'", hyperparameters, entry)
    takes = accepted(entry) or {}
    offered = {"num_classes": num_classes, "dim": dim, "generator": generator}
    settings: dict[str, Any] = {key: value for key, value in offered.items() if key in takes and value is not None}
    if preset is not None:
        settings |= preset_settings(name, preset)
    if miner is not None:
        if "miner" not in takes:
            raise BadSpecification(f"The objective '{name}' takes no miner: it uses the whole batch.")
        settings["miner"] = miner
    settings |= hyperparameters
    missing = [key for key, default in takes.items() if default is inspect.Parameter.empty and key not in settings]
    if missing:
        raise BadSpecification(f"The objective '{name}' needs {' and '.join(missing)}.")
    return as_objective(entry(**settings))


def as_objective(module: nn.Module) -> Objective:
    """Return `module` if it is an Objective, else wrap its `forward(embeddings, labels)` in the same interface.

    >>> class Mean(nn.Module):
    ...     def forward(self, embeddings, labels):
    ...         return embeddings.mean()
    >>> as_objective(Mean()).terms(torch.ones(2, 3), torch.tensor([0, 1]))
    {'loss': tensor(1.)}
    """
    if isinstance(module, Objective):
        return module
    if not isinstance(module, nn.Module):
        raise BadInput(f"An objective must be a torch.nn.Module, not a {type(module).__name__}.")
    return Plain(module)


class Plain(Objective):
    """Wrapper of any module with `forward(embeddings, labels)`. Its declared attributes are passed on."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._takes = accepted(module.forward)
        self._before = buffers_of(module)

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        more: dict[str, Any] = {}
        for name in ("tuples", "weights", "roles", "generator"):
            if self._takes is not None and name in self._takes:
                more[name] = getattr(inputs, name)
            elif name != "generator" and getattr(inputs, name) is not None:
                raise BadInput(f"{type(self.module).__name__} takes no {name}: its forward has no such argument.")
        loss = self.module(inputs.embeddings, inputs.labels, **more)
        self.active = getattr(self.module, "active", None)
        return loss if isinstance(loss, dict) else {"loss": loss}

    def lr_multipliers(self) -> dict[str, float]:
        own: dict[str, float] = getattr(self.module, "lr_multipliers", dict)()
        return {f"module.{name}": value for name, value in own.items()}

    def optimisers(self) -> dict[str, str]:
        own: dict[str, str] = getattr(self.module, "optimisers", dict)()
        return {f"module.{name}": value for name, value in own.items()}

    def part_of(self, parameter: str) -> str:
        return ".".join(parameter.split(".")[:2])

    @property
    def class_vectors(self) -> nn.Parameter | None:
        """The module's parameter `proxies`, if it has one."""
        proxies = getattr(self.module, "proxies", None)
        return proxies if isinstance(proxies, nn.Parameter) else None

    @property
    def learned_buffers(self) -> int:
        """Changed buffer values of the module: running statistics, a queue, moving centres."""
        return changed(self._before, self.module)

    @property
    def separable(self) -> bool:
        return bool(getattr(self.module, "separable", False))

    @property
    def takes_weights(self) -> bool:
        return self._takes is not None and "weights" in self._takes

    @property
    def _label(self) -> str:
        return type(self.module).__name__


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's buffers, to detect later changes."""
    return {name: buffer.detach().clone() for name, buffer in module.named_buffers()}


def changed(before: Mapping[str, Tensor], module: nn.Module) -> int:
    """Number of values in changed buffers.

    >>> norm = nn.BatchNorm1d(3)
    >>> before = buffers_of(norm)
    >>> _ = norm(torch.eye(3))
    >>> changed(before, norm)
    7
    """
    now = dict(module.named_buffers())
    return sum(b.numel() for name, b in now.items() if name not in before or not _same(before[name], b))


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.to(other.device), other)
