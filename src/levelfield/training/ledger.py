"""The ledger: compares the declared deviations of a method with what its run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from levelfield.errors import Unfair
from levelfield.methods import Deviation, Method, Setting
from levelfield.methods.deviations import done_by, point_of
from levelfield.training.conditions import Conditions

MAX_SETTING_SIZE = 64  # untrained values up to this number are settings: margins, weights of terms


@dataclass
class Measured:
    """Record of what a run did. Every possible deviation is measured, never taken on trust."""

    extra_parameters: int = 0
    learned_buffers: int = 0
    frozen_parameters: int = 0  # of the method: a network used in its steps but not trained
    layout: str = ""
    batching: str = ""
    epoch: dict[str, float] = field(default_factory=dict)  # statistics of the last epoch's batches
    images: int = 0
    rows_through_trunk: int = 0
    memory_rows: int = 0
    rows_changed: int = 0
    class_sample: float = 1.0  # smallest share of the classes that a step compared with, besides those of its batch
    steps: int = 0
    processes: int = 1
    dim: int = 0
    bits: int = 32  # per value of the compared embeddings
    refined: str = ""  # the refinement; empty: none
    teacher: str = ""  # the teacher whose outputs it received; empty: none
    head_norm: bool = False
    own_start: bool = False  # its own head ignores the initialisation of the conditions
    own_starts: list[str] = field(default_factory=list)  # groups of its parameters that do, see `own_starts`
    monitored: int = 0  # evaluations of the test classes during training
    rates: dict[str, float] = field(default_factory=dict)
    decays: dict[str, float] = field(default_factory=dict)
    optimisers: dict[str, str] = field(default_factory=dict)

    @property
    def trunk_passes(self) -> float | None:
        """Number of trunk passes per training image; None if nothing was trained."""
        return round((self.rows_through_trunk - self.memory_rows) / self.images, 3) if self.images else None

    def deviations(self, conditions: Conditions, *, trains: bool) -> list[Deviation]:
        """Deviations from the conditions, among those that a method must declare."""
        done = done_by(self, conditions, declared=True)
        return _deviations(done if trains else {**done, "steps": self.steps}, conditions)


def declared(method: Method, conditions: Conditions, setting: Setting) -> list[Deviation]:
    """Deviations declared by the method, without values equal to the conditions, plus the tuning budget."""
    values = dict(method.deviations(setting))
    if "batching" in values and conditions.batching and method.layout and method.batching is None:
        # its own layout with the common batching
        values["batching"] = str(conditions.batches(method)[1])
    if method.tunable:
        values["tuning_trials"] = method.trials
    return _deviations(values, conditions)


def _deviations(values: Mapping[str, Any], conditions: Conditions) -> list[Deviation]:
    """The values that differ from the conditions."""
    points = [Deviation(what, point_of(what).usual_under(conditions), value) for what, value in values.items()]
    return [each for each in points if _differ(each.method, each.condition)]


def settle(
    declaration: Sequence[Deviation], conditions: Conditions, measured: Measured, *, trains: bool, before: bool = False
) -> list[Deviation]:
    """Deviations to print with the result; refuses undeclared deviations and declarations that did not happen.

    declaration: the deviations that the method declares (`declared`). before: compare only what is known before the
    first step.
    """
    unmeasured = [deviation for deviation in declaration if point_of(deviation.what).declared == "only"]
    expected = {deviation.what: deviation for deviation in declaration if deviation not in unmeasured}
    done = {deviation.what: deviation for deviation in measured.deviations(conditions, trains=trains)}
    for what in sorted({*expected, *done}):
        point = point_of(what)
        if before and not point.before:
            continue
        if what not in expected or (what in done and _differ(expected[what].method, done[what].method)):
            raise Unfair(
                f"The method has an undeclared deviation from the conditions: {done[what].text}. {point.sentence} "
                "Add it to `deviations()`, or remove it."
            )
        if what not in done:
            raise Unfair(f"The method declares '{expected[what].text}', but its run did not show this deviation.")
    undeclared = done_by(measured, conditions, declared=False)
    if not trains:
        undeclared.pop("start", None)
    return [*done.values(), *_deviations(undeclared, conditions), *unmeasured]


def measure_setup(
    embedder: nn.Module,
    method: Method,
    optimisers: Sequence[Optimizer],
    conditions: Conditions,
    *,
    reference_parameters: int,
) -> Measured:
    """Record of what is known before the first step. reference_parameters: of trunk above the cut and common head."""
    layout, drawn = conditions.batches(method)
    measured = Measured(layout=str(layout), batching=str(drawn))
    measured.head_norm = bool(getattr(embedder.head, "output_norm", False))
    trainable = [p for module in (embedder, method) for p in module.parameters() if p.requires_grad]
    everywhere = sum(p.numel() for p in trainable) + method.remote_parameters
    measured.extra_parameters = max(0, everywhere - reference_parameters)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            method_lr = method.lr if method.lr is not None else conditions.lr
            usual = {"trunk": conditions.trunk_lr, "head": conditions.lr}.get(group["name"], method_lr)
            measured.rates[group["name"]] = group["base_lr"] / usual
            measured.decays[group["name"]] = group["weight_decay"]
            measured.optimisers[group["name"]] = type(optimiser).__name__.lower()
    return measured


def forbid_other_optimisers(optimisers: Sequence[Optimizer]) -> RemovableHandle:
    """Context that refuses the first step of any other optimiser."""
    known = {id(optimiser) for optimiser in optimisers}

    def refuse(optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        if id(optimiser) not in known:
            raise Unfair(
                f"The method runs its own optimiser ({type(optimiser).__name__}). The loop trains all parameters: "
                "return them from `groups()`."
            )

    return register_optimizer_step_post_hook(refuse)


def frozen_in(before: dict[str, Tensor], method: Method) -> int:
    """Number of untrained values of a method: frozen parameters and unchanged buffers.

    A few values are settings, such as a fixed margin, and count as 0.
    """
    still: list[Tensor] = [p for p in method.parameters() if not p.requires_grad]
    for name, buffer in method.named_buffers():
        if buffer.is_floating_point() and name in before and torch.equal(before[name], buffer):
            still.append(buffer)
    total = sum(tensor.numel() for tensor in still)
    return total if total > MAX_SETTING_SIZE else 0


def own_starts(before: Mapping[str, Tensor], method: Method) -> list[str]:
    """Names of the groups with own parameters that still have the random values they had `before`.

    A parameter with one value everywhere is not random but set: a boundary, zero biases, unit gains.
    """
    random = {
        id(parameter)
        for name, parameter in method.named_parameters()
        if torch.equal(before[name], parameter) and bool((parameter != parameter.flatten()[:1]).any())
    }
    left = [group.name for group in method.groups() if any(id(parameter) in random for parameter in group.parameters)]
    return list(dict.fromkeys(name.removesuffix("_biases_and_gains") for name in left))


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return abs(a - b) > 1e-6 * max(abs(a), abs(b))
    return bool(a != b)
