"""The ledger: what a method declares to do otherwise, against what its run really did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from levelfield.batching import Choice
from levelfield.errors import Unfair
from levelfield.methods import Deviation, Method, Setting
from levelfield.training.conditions import Conditions
from levelfield.training.used import FEW


@dataclass
class Measured:
    """What a run really did. Every key that can be a deviation is counted here, never taken on trust."""

    extra_parameters: int = 0
    learned_buffers: int = 0
    frozen_parameters: int = 0  # of the method: a network that computes in its steps and does not train
    layout: str = ""
    batching: str = ""
    epoch: dict[str, float] = field(default_factory=dict)  # what the batches of the last epoch were
    images: int = 0
    rows_through_trunk: int = 0
    memory_rows: int = 0
    rows_changed: int = 0
    steps: int = 0
    dim: int = 0
    bits: int = 32  # of each number that is compared
    refined: str = ""  # how; empty: not at all
    teacher: str = ""  # whose outputs it was given; empty: nobody's
    head_norm: bool = False
    own_start: bool = False  # a head of its own does not start where the conditions say
    monitored: int = 0  # looks at the test classes while it trained
    rates: dict[str, float] = field(default_factory=dict)
    decays: dict[str, float] = field(default_factory=dict)
    optimisers: dict[str, str] = field(default_factory=dict)

    def deviations(self, conditions: Conditions, *, trains: bool) -> list[Deviation]:
        """The points in which this differs from the conditions."""
        found: dict[str, Any] = {
            "extra_parameters": self.extra_parameters,
            "learned_buffers": self.learned_buffers,
        }
        for name, rate in self.rates.items():
            found["lr" if name == "head" else f"lr_of_{name}"] = rate * conditions.lr if name == "head" else rate
            found[f"weight_decay_of_{name}"] = self.decays[name]
            found[f"optimiser_of_{name}"] = self.optimisers[name]
        if self.layout:
            found["batch"] = self.layout
            found["batching"] = self.batching
        if self.dim:
            found["dim"] = self.dim
        if self.dim and conditions.codes == "binary" and self.bits != 1:
            found["codes"] = "float32"
        if self.refined:
            found["refined"] = self.refined
        if self.teacher:
            found["teacher"] = self.teacher
        if self.head_norm:
            found["head_norm"] = "yes"
        if self.rows_changed:
            found["hidden_states"] = "changed"
        if not trains or self.steps > conditions.steps:
            found["steps"] = self.steps
        if self.images:
            found["trunk_passes"] = round((self.rows_through_trunk - self.memory_rows) / self.images, 3)
        return _departures(found, conditions)


def declared(method: Method, conditions: Conditions, setting: Setting) -> list[Deviation]:
    """What the method says of itself; what equals the condition is none, and the tuning budget is added."""
    said = {deviation.what: deviation.method for deviation in method.deviations(setting)}
    if "batching" in said and conditions.batching and method.layout and method.batching is None:
        # its own layout, drawn as all others are
        said["batching"] = str(conditions.batches(method)[1])
    return _departures({**said, **({"tuning_trials": method.trials} if method.tunable else {})}, conditions)


def _departures(values: dict[str, Any], conditions: Conditions) -> list[Deviation]:
    """The entries that differ from what the conditions say."""
    common = {
        "extra_parameters": 0,
        "learned_buffers": 0,
        "lr": conditions.lr,
        "lr_of": 1.0,
        "weight_decay_of": conditions.weight_decay,
        "optimiser_of": conditions.optimiser,
        "batch": str(conditions.layout),
        "batching": str(Choice.of(conditions.batching, conditions.layout)),
        "dim": conditions.dim,
        "codes": conditions.codes,
        "refined": "no",
        "head_norm": "no",
        "hidden_states": "kept",
        "steps": conditions.steps,
        "trunk_passes": 1,
        "tuning_trials": conditions.tuning_trials,
    }
    found = []
    for what, value in values.items():
        kind = what.split("_of_")[0] + ("_of" if "_of_" in what else "")
        if _differ(value, common.get(kind)):
            found.append(Deviation(what, common.get(kind), value))
    return found


def settle(
    method: Method, conditions: Conditions, setting: Setting, measured: Measured, *, only: set[str] | None = None
) -> list[Deviation]:
    """As `settled`, with what the method says of itself now."""
    return settled(declared(method, conditions, setting), conditions, measured, trains=method.trains, only=only)


def settled(
    said: Sequence[Deviation],
    conditions: Conditions,
    measured: Measured,
    *,
    trains: bool,
    only: set[str] | None = None,
) -> list[Deviation]:
    """The deviations to print beside the result; refuses what was done and not declared, or declared and not done.

    said: what the method declared. only: the points known so far, for the check before the first step.
    """
    tuning = [deviation for deviation in said if deviation.what == "tuning_trials"]
    told = {deviation.what: deviation for deviation in said if deviation.what != "tuning_trials"}
    done = {deviation.what: deviation for deviation in measured.deviations(conditions, trains=trains)}
    for what in sorted({*told, *done}):
        if only is not None and what.split("_of_")[0] not in only:
            continue
        if what not in told or (what in done and _differ(told[what].method, done[what].method)):
            raise Unfair(
                f"The method departs from the conditions without declaring it: {done[what].text}. "
                "Add it to `deviations()`, or remove it."
            )
        if what not in done:
            raise Unfair(f"The method declares '{told[what].text}', but its run did not do so.")
    # follows from the batching, which is declared
    memory = [Deviation("memory_rows", None, measured.memory_rows)] if measured.memory_rows else []
    monitor = [Deviation("monitor", None, "test")] if measured.monitored else []  # a condition of the study
    own_start = measured.own_start and trains
    # exposed, whoever declares it: it follows from what the method owns
    frozen = [Deviation("frozen_parameters", 0, measured.frozen_parameters)] if measured.frozen_parameters else []
    start = [Deviation("start", conditions.head_init, "its own")] if own_start else []  # follows from `head`
    return [*done.values(), *frozen, *start, *memory, *monitor, *tuning]


def measure_setup(
    embedder: nn.Module,
    method: Method,
    optimisers: Sequence[Optimizer],
    conditions: Conditions,
    *,
    reference_parameters: int,
) -> Measured:
    """What can be counted before the first step. `reference_parameters`: trunk above the cut plus the common head."""
    names = {"AdamW": "adamw", "Adam": "adam", "RAdam": "radam", "RMSprop": "rmsprop", "SGD": "sgd"}
    layout, drawn = conditions.batches(method)
    measured = Measured(layout=str(layout), batching=str(drawn))
    measured.head_norm = bool(getattr(embedder.head, "output_norm", False))
    trainable = [p for module in (embedder, method) for p in module.parameters() if p.requires_grad]
    measured.extra_parameters = max(0, sum(p.numel() for p in trainable) - reference_parameters)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            own = method.lr if method.lr is not None else conditions.lr
            usual = {"trunk": conditions.trunk_lr, "head": conditions.lr}.get(group["name"], own)
            measured.rates[group["name"]] = group["base_lr"] / usual
            measured.decays[group["name"]] = group["weight_decay"]
            measured.optimisers[group["name"]] = names.get(type(optimiser).__name__, type(optimiser).__name__)
    return measured


@contextmanager
def forbid_other_optimisers(optimisers: Sequence[Optimizer]) -> Iterator[None]:
    """Inside, an optimiser that is none of these is refused at its first step, whoever runs it."""
    own = {id(optimiser) for optimiser in optimisers}

    def refuse(optimiser: Optimizer, args: Any, kwargs: Any) -> None:
        if id(optimiser) not in own:
            raise Unfair(
                f"The method runs an optimiser of its own ({type(optimiser).__name__}). Parameters are trained "
                "by the loop: return them from `groups()`."
            )

    hook = register_optimizer_step_post_hook(refuse)
    try:
        yield
    finally:
        hook.remove()


def frozen_in(before: dict[str, Tensor], method: Method) -> int:
    """How many numbers a method owns that nobody trains: frozen parameters, and buffers that stayed what they were.

    A few are settings, such as a fixed margin, and count as none.
    """
    still: list[Tensor] = [p for p in method.parameters() if not p.requires_grad]
    for name, buffer in method.named_buffers():
        if buffer.is_floating_point() and name in before and torch.equal(before[name], buffer):
            still.append(buffer)
    total = sum(tensor.numel() for tensor in still)
    return total if total > FEW else 0


def check_leaves(loss: Tensor, optimisers: Sequence[Optimizer]) -> None:
    """Every trainable tensor that the loss depends on is in an optimiser group, also hidden ones."""
    known = {id(p) for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]}
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            raise Unfair(
                f"The loss depends on a trainable tensor {tuple(leaf.shape)} that is in no optimiser group: "
                "a hidden extra parameter. Return it from `groups()`."
            )
        waiting += [following for following, _ in node.next_functions]


def _differ(a: Any, b: Any) -> bool:
    return (
        abs(a - b) > 1e-6 * max(abs(a), abs(b)) if isinstance(a, float | int) and isinstance(b, float | int) else a != b
    )
