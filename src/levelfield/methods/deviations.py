"""All possible deviations of a method from the conditions, in one table.

A new deviation is a new entry here: the common value, the value that a run used, when it is known, and its meaning. The
ledger (`levelfield.training.ledger`) compares the declaration of a method with its run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from levelfield.batching import Choice

_Conditions: TypeAlias = Any  # the types are in `levelfield.training`, a higher layer
_Measured: TypeAlias = Any


@dataclass(frozen=True)
class Point:
    """A possible deviation from the conditions."""

    name: str
    """A name that ends with `_of` refers to a parameter group of the method: `lr_of_proxies`."""
    sentence: str
    usual: Callable[[_Conditions], Any] = lambda conditions: None
    """The common value."""
    done: Callable[[_Measured, _Conditions], Any] = lambda measured, conditions: None
    """The value that a run used, or one per group; None: nothing to compare."""
    known: Literal["before", "after"] = "after"
    """Whether the value is known before the first step or only after the run."""
    declared: Literal["and counted", "only", "never"] = "and counted"
    """Most points are declared and counted. "only": it cannot be counted. "never": it follows from another point."""
    number: str = "{}"
    """Format of integers."""
    of_a_joined_run: bool = False
    """A joined run has its own value, independent of its members' values."""


POINTS = (
    Point(
        "extra_parameters",
        "Trained parameters besides the trunk and the common head.",
        usual=lambda conditions: 0,
        done=lambda measured, _: measured.extra_parameters,
        known="before",
        number="{:,}",
        of_a_joined_run=True,
    ),
    Point(
        "learned_buffers",
        "Values other than parameters that changed during training, such as running means.",
        usual=lambda conditions: 0,
        done=lambda measured, _: measured.learned_buffers,
        number="{:,}",
    ),
    Point(
        "lr",
        "The learning rate of the head.",
        usual=lambda conditions: conditions.lr,
        done=lambda measured, conditions: measured.rates["head"] * conditions.lr if "head" in measured.rates else None,
        known="before",
    ),
    Point(
        "lr_of",
        "The learning rate of a group of parameters, as a multiple of the usual one.",
        usual=lambda conditions: 1.0,
        done=lambda measured, _: {name: rate for name, rate in measured.rates.items() if name != "head"},
        known="before",
        number="x{}",
    ),
    Point(
        "weight_decay_of",
        "The weight decay of a group of parameters.",
        usual=lambda conditions: conditions.weight_decay,
        done=lambda measured, _: measured.decays,
        known="before",
    ),
    Point(
        "optimiser_of",
        "The optimiser of a group of parameters.",
        usual=lambda conditions: conditions.optimiser,
        done=lambda measured, _: measured.optimisers,
        known="before",
    ),
    Point(
        "batch",
        "Number of classes and images in a batch.",
        usual=lambda conditions: str(conditions.layout),
        done=lambda measured, _: measured.layout or None,
        known="before",
    ),
    Point(
        "batching",
        "How the images of a batch are chosen.",
        usual=lambda conditions: str(Choice.of(conditions.batching, conditions.layout)),
        done=lambda measured, _: measured.batching if measured.layout else None,
        known="before",
    ),
    Point(
        "dim",
        "Size of the embeddings that are compared.",
        usual=lambda conditions: conditions.dim,
        done=lambda measured, _: measured.dim or None,
        of_a_joined_run=True,
    ),
    Point(
        "codes",
        "Number format of the embeddings.",
        usual=lambda conditions: conditions.codes,
        done=lambda measured, conditions: "float32" if measured.dim and measured.bits != 1 else conditions.codes,
    ),
    Point(
        "refined",
        "Embeddings depend on other images at test time.",
        usual=lambda conditions: "no",
        done=lambda measured, _: measured.refined or None,
    ),
    Point(
        "teacher",
        "It learns from the outputs of a finished run.",
        done=lambda measured, _: measured.teacher or None,
    ),
    Point(
        "head_norm",
        "The head ends with a layer norm without parameters.",
        usual=lambda conditions: "yes" if conditions.output_norm else "no",
        done=lambda measured, _: "yes" if measured.head_norm else None,
        known="before",
    ),
    Point(
        "hidden_states",
        "Training changes hidden states inside the network, as mixup does.",
        usual=lambda conditions: "kept",
        done=lambda measured, _: "changed" if measured.rows_changed else None,
    ),
    Point(
        "class_sample",
        "Share of the classes that the loss of a step compares with, besides those of its batch.",
        usual=lambda conditions: 1,
        done=lambda measured, _: measured.class_sample,
    ),
    Point(
        "matryoshka",
        "The loss is a mean over the first numbers of each row, for several sizes.",
        usual=lambda conditions: "no",
        declared="only",
    ),
    Point(
        "steps",
        "Training steps.",
        usual=lambda conditions: conditions.steps,
        done=lambda measured, conditions: measured.steps if measured.steps > conditions.steps else None,
    ),
    Point(
        "trunk_passes",
        "Number of trunk passes per training image in a step.",
        usual=lambda conditions: 1,
        done=lambda measured, _: measured.trunk_passes,
        of_a_joined_run=True,
    ),
    Point(
        "frozen_parameters",
        "Untrained values of the method, such as a second network that its steps use.",
        usual=lambda conditions: 0,
        done=lambda measured, _: measured.frozen_parameters or None,
        declared="never",
        number="{:,}",
    ),
    Point(
        "start",
        "The method's own head ignores the initialisation set by the conditions.",
        usual=lambda conditions: conditions.head_init,
        done=lambda measured, _: "its own" if measured.own_start else None,
        declared="never",
    ),
    Point(
        "start_of",
        "A group of the method's own parameters starts at random values, not from the first embeddings.",
        usual=lambda conditions: conditions.proxies,
        done=lambda measured, _: dict.fromkeys(measured.own_starts, "its own"),
        declared="never",
    ),
    Point(
        "processes",
        "Number of processes that trained the run together.",
        usual=lambda conditions: conditions.processes,
        done=lambda measured, _: measured.processes if measured.steps else None,
        declared="never",
    ),
    Point(
        "memory_rows",
        "Images embedded to fill the memory of the batching.",
        done=lambda measured, _: measured.memory_rows or None,
        declared="never",
    ),
    Point(
        "monitor",
        "The test classes were evaluated during training (not used for selection).",
        done=lambda measured, _: "test" if measured.monitored else None,
        declared="never",
    ),
    Point("head", "Only the method's own code can apply its head.", declared="never"),
    Point("members", "Number of joined networks.", declared="never", of_a_joined_run=True),
    Point(
        "tuning_trials",
        "Number of settings tried before choosing.",
        usual=lambda conditions: conditions.tuning_trials,
        declared="only",
    ),
)
_BY_NAME = {point.name: point for point in POINTS}


@dataclass(frozen=True)
class Deviation:
    """A deviation of a method from the conditions.

    >>> Deviation("dim", 128, 3840).text
    'dim 3840 (128)'
    """

    what: str
    condition: Any
    method: Any
    note: str = ""

    @property
    def text(self) -> str:
        form = point_of(self.what).number
        shown, usual = (
            form.replace(":,", "").format(f"{value:g}")
            if isinstance(value, float)
            else form.format(value)
            if isinstance(value, int)
            else str(value)
            for value in (self.method, self.condition)
        )
        remarks = [text for text in (usual if self.condition else "", self.note) if text]
        return f"{self.what.replace('_', ' ')} {shown}" + (f" ({'; '.join(remarks)})" if remarks else "")


def point_of(what: str) -> Point:
    """The point of a deviation; any other condition can be a point too.

    >>> point_of("lr_of_proxies").name, point_of("image").name
    ('lr_of', 'image')
    """
    name, of, _ = what.partition("_of_")
    name += "_of" if of else ""
    return _BY_NAME.get(name) or Point(name, "A condition of the method's own.")


def done_by(measured: _Measured, conditions: _Conditions, *, declared: bool) -> dict[str, Any]:
    """Values that a run used, by name: of the points that a method must declare, or of those that are not declared."""
    used_values: dict[str, Any] = {}
    for point in POINTS:
        if (point.declared != "never") is declared:
            value = point.done(measured, conditions)
            values = {f"_{group}": one for group, one in value.items()} if isinstance(value, Mapping) else {"": value}
            used_values |= {point.name + group: one for group, one in values.items() if one is not None}
    return used_values
