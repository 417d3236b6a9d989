"""All possible deviations of a method from the conditions, in one table.

A new deviation is a new entry here. The ledger (`levelfield.training.ledger`) compares the declaration of a method with
its run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from levelfield.batching import Choice


@dataclass(frozen=True)
class Point:
    """A possible deviation from the conditions.

    name: one that ends with `_of` refers to a parameter group of the method: `lr_of_proxies`.
    usual: the common value, or a function of the conditions that returns it.
    done: the value that a run used, from its `Measured` record and the conditions, or one value per group; None and ""
    deviate from nothing. Default: the attribute of the record with the name of the point.
    before: whether the value is known before the first step.
    declared: whether a method declares it and its run is compared; "only": it cannot be measured; "never": it follows
    from another point.
    number: format of integers. joined: whether a joined run has its own value, independent of its members' values.
    """

    name: str
    sentence: str
    usual: Any = None
    done: Callable[[Any, Any], Any] | None = None
    before: bool = False
    declared: Literal["and counted", "only", "never"] = "and counted"
    number: str = "{}"
    joined: bool = False

    def usual_under(self, conditions: Any) -> Any:
        """The common value."""
        return self.usual(conditions) if callable(self.usual) else self.usual


_known = partial(Point, before=True)
_implied = partial(Point, declared="never")
POINTS = (
    _known(
        "extra_parameters", "Trained parameters besides the trunk and the common head.", 0, number="{:,}", joined=True
    ),
    Point(
        "learned_buffers",
        "Values other than parameters that changed during training, such as running means.",
        0,
        number="{:,}",
    ),
    _known(
        "lr",
        "The learning rate of the head.",
        lambda c: c.lr,
        lambda m, c: m.rates["head"] * c.lr if "head" in m.rates else None,
    ),
    _known(
        "lr_of",
        "The learning rate of a group of parameters, as a multiple of the usual one.",
        1.0,
        lambda m, c: {name: rate for name, rate in m.rates.items() if name != "head"},
        number="x{}",
    ),
    _known(
        "weight_decay_of", "The weight decay of a group of parameters.", lambda c: c.weight_decay, lambda m, c: m.decays
    ),
    _known("optimiser_of", "The optimiser of a group of parameters.", lambda c: c.optimiser, lambda m, c: m.optimisers),
    _known("batch", "Number of classes and images in a batch.", lambda c: str(c.layout), lambda m, c: m.layout),
    _known(
        "batching",
        "How the images of a batch are chosen.",
        lambda c: str(Choice.of(c.batching, c.layout)),
        lambda m, c: m.batching if m.layout else None,
    ),
    Point("dim", "Size of the embeddings that are compared.", lambda c: c.dim, lambda m, c: m.dim or None, joined=True),
    Point(
        "codes",
        "Number format of the embeddings.",
        lambda c: c.codes,
        lambda m, c: "float32" if m.dim and m.bits != 1 else c.codes,
    ),
    Point("refined", "Embeddings depend on other images at test time.", "no"),
    Point("teacher", "It learns from the outputs of a finished run."),
    _known(
        "head_norm",
        "The head ends with a layer norm without parameters.",
        lambda c: "yes" if c.output_norm else "no",
        lambda m, c: "yes" if m.head_norm else None,
    ),
    Point(
        "hidden_states",
        "Training changes hidden states inside the network, as mixup does.",
        "kept",
        lambda m, c: "changed" if m.rows_changed else None,
    ),
    Point("class_sample", "Share of the classes that the loss of a step compares with, besides those of its batch.", 1),
    Point(
        "matryoshka", "The loss is a mean over the first numbers of each row, for several sizes.", "no", declared="only"
    ),
    Point("steps", "Training steps.", lambda c: c.steps, lambda m, c: m.steps if m.steps > c.steps else None),
    Point("trunk_passes", "Number of trunk passes per training image in a step.", 1, joined=True),
    _implied(
        "frozen_parameters",
        "Untrained values of the method, such as a second network that its steps use.",
        0,
        number="{:,}",
    ),
    _implied(
        "start",
        "The method's own head ignores the initialisation set by the conditions.",
        lambda c: c.head_init,
        lambda m, c: "its own" if m.own_start else None,
    ),
    _implied(
        "start_of",
        "A group of the method's own parameters starts at random values, not from the first embeddings.",
        lambda c: c.proxies,
        lambda m, c: dict.fromkeys(m.own_starts, "its own"),
    ),
    _implied(
        "processes",
        "Number of processes that trained the run together.",
        lambda c: c.processes,
        lambda m, c: m.processes if m.steps else None,
    ),
    _implied(
        "memory_rows", "Images embedded to fill the memory of the batching.", done=lambda m, c: m.memory_rows or None
    ),
    _implied(
        "monitor",
        "The test classes were evaluated during training (not used for selection).",
        done=lambda m, c: "test" if m.monitored else None,
    ),
    _implied("head", "Only the method's own code can apply its head."),
    _implied("members", "Number of joined networks.", joined=True),
    Point("tuning_trials", "Number of settings tried before choosing.", lambda c: c.tuning_trials, declared="only"),
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
        usual = _shown(self.condition, form) if self.condition else ""
        remarks = "; ".join(text for text in (usual, self.note) if text)
        return f"{self.what.replace('_', ' ')} {_shown(self.method, form)}" + (f" ({remarks})" if remarks else "")


def _shown(value: Any, form: str) -> str:
    if isinstance(value, float):
        return form.replace(":,", "").format(f"{value:g}")
    return form.format(value) if isinstance(value, int) else str(value)


def point_of(what: str) -> Point:
    """The point of a deviation; any other condition can be a point too.

    >>> point_of("lr_of_proxies").name, point_of("image").name
    ('lr_of', 'image')
    """
    name, of, _ = what.partition("_of_")
    name += "_of" if of else ""
    return _BY_NAME.get(name) or Point(name, "A condition of the method's own.")


def done_by(measured: Any, conditions: Any, *, declared: bool) -> dict[str, Any]:
    """Values that a run used, by name: of the points that a method must declare, or of those that are not declared."""
    used_values: dict[str, Any] = {}
    for point in POINTS:
        if (point.declared != "never") is declared:
            value = getattr(measured, point.name, None) if point.done is None else point.done(measured, conditions)
            if isinstance(value, Mapping):
                used_values |= {f"{point.name}_{group}": each for group, each in value.items()}
            elif value is not None and value != "":
                used_values[point.name] = value
    return used_values
