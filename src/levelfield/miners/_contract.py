"""The interface of a miner, and the registry of miners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import Geometry
from levelfield.miners._base import BaseMiner, Tuples
from levelfield.registry import Registry, is_pml_reference
from levelfield.settings import accepted, check_settings


@runtime_checkable
class Miner(Protocol):
    """Interface of a miner: selects tuples from a detached geometry; all randomness comes from `generator`.

    The miners of levelfield are `BaseMiner`s, which also take plain embeddings.
    """

    def __call__(self, geometry: Geometry, labels: Tensor, /, *, generator: torch.Generator) -> Tuples: ...


MinerChoice = str | Mapping[str, Mapping[str, Any]] | Miner
"""A miner's name, its name with settings, or a miner."""


@dataclass(frozen=True)
class MinerFacts:
    """Facts about a miner, from which the docs and `levelfield list miners` are generated."""

    paper: str
    rule: str
    returns: str = "triplets"
    random: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)  # setting -> where its default comes from
    search: Mapping[str, Any] = field(default_factory=dict)  # setting -> (low, high, "log" or "linear") or choices
    defaults: Mapping[str, Any] = field(default_factory=dict)  # read from the constructor


registry = Registry[BaseMiner]("miner", "miners", home="levelfield.miners")
_Entry = TypeVar("_Entry", bound=type)


def register(name: str, facts: MinerFacts) -> Callable[[_Entry], _Entry]:
    """Decorator: register a miner class under `name`."""

    def enter(entry: _Entry) -> _Entry:
        registry.register(name, replace(facts, defaults=accepted(entry) or {}))(entry)
        return entry

    return enter


def names() -> list[str]:
    """Names of all miners."""
    return registry.names()


def describe(name: str) -> MinerFacts:
    """The facts of the miner `name`."""
    facts: MinerFacts | None = registry.facts(name)
    if facts is None:
        raise BadInput(f"'{name}' is registered without facts: see `levelfield.miners.register`.")
    return facts


def create(name: str, *, switch: float = 0.0, **settings: Any) -> BaseMiner:
    """The miner `name`, `my_miners.py:MyMiner`, or `pml:TripletMarginMiner` of pytorch-metric-learning.

    Args:
        name: see `names()`; a class such as `miners.Semihard` does the same with typed keywords.
        switch: probability of roth2020's rho-regularisation (see `Switched`).
        **settings: the miner's own (`describe(name).defaults`).

    Returns:
        A miner: `miner(embeddings, labels)` with embeddings (batch, dim) and labels (batch,) returns the tuples of
        `describe(name).returns` as positions in the batch: triplets (t, 3), or pairs (p, 2) and (q, 2).

    >>> create("semihard", mode="closest")
    Semihard(mode='closest', margin=0.2)
    >>> create("semihard", mode="closest")(torch.eye(3), torch.tensor([0, 0, 1])).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    if is_pml_reference(name):
        from levelfield.miners._pml import PMLMiner

        miner: BaseMiner = PMLMiner(name, settings)
    else:
        entry = registry.get(name)
        check_settings(f"miner '{name}'", settings, entry, also=["switch"])
        miner = entry(**settings)
        if not callable(miner):
            raise BadInput(f"The miner '{name}' is a {type(miner).__name__}; it must be callable, see `BaseMiner`.")
    if switch:
        from levelfield.miners.switch import Switched

        return Switched(miner, switch)
    return miner


def resolve(choice: MinerChoice, *, switch: float = 0.0, **hints: Any) -> Miner:
    """The miner given by a name, by `{name: settings}`, or as a miner.

    `hints` are suggestions of the objective (for instance its own margin): used if the miner has such a setting
    and the choice does not set it.

    >>> resolve({"semihard": {"mode": "all"}}, margin=0.5)
    Semihard(mode='all', margin=0.5)
    """
    if isinstance(choice, str):
        choice = {choice: {}}
    if isinstance(choice, Mapping):
        if len(choice) != 1:
            raise BadSpecification(f"'miner' is {dict(choice)!r}; it must be a name or one name with its settings.")
        ((name, settings),) = choice.items()
        takes = {} if is_pml_reference(name) else accepted(registry.get(name)) or {}
        open_hints = {key: value for key, value in hints.items() if key in takes}
        return create(name, **{"switch": switch, **open_hints, **(settings or {})})
    if not callable(choice):
        raise BadSpecification(f"'miner' is {choice!r}; it must be a name, one name with its settings, or a miner.")
    if switch:
        from levelfield.miners.switch import Switched

        return Switched(choice, switch)
    return choice
