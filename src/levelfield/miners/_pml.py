"""Parts of pytorch-metric-learning by name, `pml:TripletMarginMiner`, and an adapter for its miners."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import Geometry
from levelfield.miners._contract import BaseMiner, Tuples
from levelfield.randomness import drawn_from
from levelfield.registry import load_from_pml
from levelfield.settings import check_names

# Settings that are objects in PML; in a study they are a name, or a name with settings.
PARTS = {
    "distance": "distances",
    "reducer": "reducers",
    "embedding_regularizer": "regularizers",
    "weight_regularizer": "regularizers",
    "loss": "losses",
}


def pml_settings(kind: type) -> dict[str, Any]:
    """Every setting that a PML class takes, including those it passes to its parents, with defaults."""
    settings: dict[str, Any] = {}
    for parent in kind.__mro__:
        if parent.__module__.startswith("pytorch_metric_learning") and "__init__" in vars(parent):
            for name, parameter in inspect.signature(parent).parameters.items():
                if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                    settings.setdefault(name, parameter.default)
    return settings


def make_pml(reference: str, room: str, settings: Mapping[str, Any]) -> Any:
    """Create the PML class `reference` with `settings`; an unknown setting is an error."""
    kind = load_from_pml(reference, room)
    check_names(f"'{reference}'", settings, pml_settings(kind))
    try:
        return kind(**{name: _part(name, value) for name, value in settings.items()})
    except (TypeError, ValueError, AssertionError) as error:  # a required setting is missing, or a value is refused
        raise BadSpecification(f"'{reference}' cannot be created: {error}") from error


def _part(name: str, value: Any) -> Any:
    if name in PARTS and isinstance(value, str):
        return make_pml(value, PARTS[name], {})
    if name in PARTS and isinstance(value, Mapping) and len(value) == 1:
        ((part, settings),) = value.items()
        return make_pml(part, PARTS[name], settings or {})
    return value


@dataclass(frozen=True)
class PMLMiner(BaseMiner):
    """A miner of pytorch-metric-learning with our interface. It gets the rows of the geometry.

    Plain embeddings are passed unchanged: its own distance decides whether they are normalised.
    """

    normalize: ClassVar[bool] = False
    reference: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    _miner: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_miner", make_pml(self.reference, "miners", self.settings))

    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tuples:
        if not geometry.with_itself:
            raise BadInput(
                f"The miner '{self.reference}' only compares a batch with itself and does not support a memory."
            )
        with drawn_from(generator), torch.no_grad():
            indices = [part.detach() for part in self._miner(geometry.rows.detach(), labels)]
        if len(indices) == 3:
            return torch.stack(indices, 1)
        first, positive, second, negative = indices
        return torch.stack((first, positive), 1), torch.stack((second, negative), 1)


def as_pml_indices(tuples: Tuples | None) -> tuple[Tensor, ...] | None:
    """Our tuples in the format of PML's losses.

    >>> as_pml_indices(torch.tensor([[0, 1, 2], [1, 0, 2]]))
    (tensor([0, 1]), tensor([1, 0]), tensor([2, 2]))
    """
    if tuples is None:
        return None
    if isinstance(tuples, Tensor):
        return tuple(tuples.unbind(1))
    positive, negative = tuples
    return *positive.unbind(1), *negative.unbind(1)
