"""Create objectives by name: registered ones, any `nn.Module` from a file, and losses of pytorch-metric-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import Geometry
from levelfield.miners import MinerChoice
from levelfield.miners._pml import as_pml_indices, make_pml, pml_settings
from levelfield.objectives._contract import LossInputs, Objective, ObjectiveFacts, registry
from levelfield.papers.presets import preset_row, presets
from levelfield.randomness import drawn_from, stream
from levelfield.registry import is_pml_reference, load_from_pml
from levelfield.settings import accepted, check_settings

names = registry.names  # the names of all objectives
_PML_DIM = ("embedding_size", "descriptors_dim")  # pytorch-metric-learning's names of the embedding size


def describe(name: str) -> ObjectiveFacts:
    """The facts of the objective `name`: paper, formula, defaults, batch layout, suitable miners, search ranges, and
    each paper's settings per dataset.

    >>> describe("proxy_anchor").needs
    ('num_classes', 'dim')
    >>> describe("contrastive").presets["mlrc/cars"]["neg_margin"]
    0.5409
    """
    if is_pml_reference(name):
        return _pml_facts(name)
    facts: ObjectiveFacts | None = registry.facts(name)
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
    offered = {"num_classes": num_classes, "dim": dim, "generator": generator}
    if is_pml_reference(name):
        if preset is not None:
            preset_row(name, preset)  # raises: there are none
        return _pml_objective(name, hyperparameters, offered, miner)
    entry = registry.get(name)
    check_settings(f"objective '{name}'", hyperparameters, entry)
    takes = accepted(entry) or {}
    settings: dict[str, Any] = {key: value for key, value in offered.items() if key in takes and value is not None}
    if preset is not None:
        settings |= preset_row(name, preset)["settings"]
    if miner is not None:
        if "miner" not in takes:
            raise BadSpecification(f"The objective '{name}' takes no miner: it uses the whole batch.")
        settings["miner"] = miner
    settings |= hyperparameters
    missing = [key for key, default in takes.items() if default is Parameter.empty and key not in settings]
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
        return self._declared("lr_multipliers")

    def optimisers(self) -> dict[str, str]:
        return self._declared("optimisers")

    def _declared(self, method: str) -> dict[str, Any]:
        declared: dict[str, Any] = getattr(self.module, method, dict)()
        return {f"module.{name}": value for name, value in declared.items()}

    def part_of(self, parameter: str) -> str:
        return ".".join(parameter.split(".")[:2])

    @property
    def class_vectors(self) -> nn.Parameter | None:
        return _proxies_of(self.module)

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
    def who(self) -> str:
        return f"Objective '{type(self.module).__name__}'"


class PMLLoss(Objective):
    """A loss of pytorch-metric-learning, with our tuples and miners; its random numbers come from the generator."""

    facts = ObjectiveFacts(
        paper="pytorch-metric-learning", formula="see its documentation", tuples="pairs", weights=False
    )

    def __init__(self, loss: nn.Module, *, miner: MinerChoice | None = None) -> None:
        super().__init__(miner=miner)
        self.loss = loss

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        tuples = self.tuples_of(Geometry(inputs.embeddings.detach(), normalize=True), inputs)
        with drawn_from(inputs.generator):
            return {"loss": self.loss(inputs.embeddings, inputs.labels, as_pml_indices(tuples))}

    @property
    def class_vectors(self) -> nn.Parameter | None:
        return _proxies_of(self.loss)

    @property
    def who(self) -> str:
        return f"Objective 'pml:{type(self.loss).__name__}'"


def _proxies_of(module: nn.Module) -> nn.Parameter | None:
    proxies = getattr(module, "proxies", None)
    return proxies if isinstance(proxies, nn.Parameter) else None


def _pml_objective(
    reference: str, settings: Mapping[str, Any], offered: Mapping[str, Any], miner: MinerChoice | None
) -> PMLLoss:
    """The loss `reference`; class vectors are initialised from the offered generator."""
    takes = pml_settings(load_from_pml(reference, "losses"))
    sizes = {"num_classes": offered["num_classes"], **dict.fromkeys(_PML_DIM, offered["dim"])}
    needed = {name: size for name, size in sizes.items() if takes.get(name) is Parameter.empty and size is not None}
    with drawn_from(offered["generator"] or stream(0, "proxies")):
        return PMLLoss(make_pml(reference, "losses", {**needed, **settings}), miner=miner)


def _pml_facts(reference: str) -> ObjectiveFacts:
    takes = pml_settings(load_from_pml(reference, "losses"))
    needs = tuple(name for name in ("num_classes", "dim") if {name, *(_PML_DIM if name == "dim" else ())} & set(takes))
    defaults = {name: value for name, value in takes.items() if value is not Parameter.empty}
    return replace(PMLLoss.facts, needs=needs, name=reference, defaults=defaults, batch="2 per class")


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
    return sum(
        buffer.numel()
        for name, buffer in module.named_buffers()
        if name not in before or not torch.equal(before[name].to(buffer.device), buffer)
    )
