"""The interface of a miner, the base of all miners, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import Geometry, full_precision
from levelfield.labels import labels_of_call
from levelfield.randomness import stream
from levelfield.registry import Registry, is_pml_reference
from levelfield.settings import accepted, check_settings, check_values

Tuples = Tensor | tuple[Tensor, Tensor]
"""Triplets (t, 3), pairs (t, 2), or positive (p, 2) and negative (q, 2) pairs: indices into the batch."""


class BaseMiner(ABC):
    """`miner(embeddings, labels) -> tuples`, indices into the batch. A subclass writes `mine`.

    No gradient passes through a miner. With `Geometry(embeddings, columns, ...)` only the embeddings are anchors; their
    partners are among the columns, whose first rows are the embeddings again, and labels are those of the columns.

    A random miner without `generator` uses its own, created from seed 0 when the miner is first called (objectives have
    the same rule): two calls differ, two runs of a script are identical, and torch's global generator is not used.

    >>> from levelfield import miners
    >>> embeddings = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0]])
    >>> miners.create("batch_hard")(embeddings, torch.tensor([0, 0, 1, 1])).tolist()
    [[0, 1, 2], [1, 0, 2], [2, 3, 1], [3, 2, 1]]
    """

    normalize: ClassVar[bool] = True  # plain embeddings are compared as unit rows

    def __post_init__(self) -> None:
        check_values(vars(self), type(self))

    def __call__(
        self, embeddings: Geometry | Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tuples:
        """Choose tuples of a batch.

        Args:
            embeddings: (batch, dim) raw rows, compared as unit rows; or a `Geometry`, which defines what is compared:
                `Geometry(embeddings, normalize=False)` for raw distances.
            labels: (batch,) integers.
            generator: random numbers of a random miner; by default its own generator.

        Returns:
            int64 positions in the batch: triplets (t, 3) of anchor, positive and negative; or positive pairs (p, 2)
            and negative pairs (q, 2).
        """
        who = f"Miner {type(self).__name__}"
        generator = self._own_generator if generator is None else generator
        if not isinstance(generator, torch.Generator):
            raise BadInput(f"{who} got {kind_of(generator)} as generator; it must be a torch.Generator.")
        check_batch(embeddings.columns if isinstance(embeddings, Geometry) else embeddings, labels, who)
        geometry = self._geometry(embeddings, who)
        with full_precision(labels.device.type):
            return self.mine(geometry, labels_of_call(labels), generator)

    def _geometry(self, embeddings: Geometry | Tensor, who: str) -> Geometry:
        """The geometry of checked embeddings. Values are checked on the CPU only: elsewhere it would wait."""
        if isinstance(embeddings, Tensor):
            finite = embeddings.isfinite().all(1) if embeddings.device.type == "cpu" else None
            if finite is not None and not finite.all():
                first = int((~finite).nonzero()[0])
                raise BadInput(f"{who} got embeddings with NaN or infinity; the first such row is {first}.")
            return Geometry(embeddings.detach(), normalize=self.normalize)
        rows, columns = embeddings.rows.detach(), embeddings.columns.detach()
        same = embeddings.with_itself or len(rows) <= len(columns)
        if same and not embeddings.with_itself and rows.device.type == "cpu":
            same = torch.allclose(columns[: len(rows)], rows, rtol=1e-4, atol=1e-6, equal_nan=True)
        if not same:
            raise BadInput(
                f"{who} got {len(rows)} rows against {len(columns)} columns: the first columns must be the rows "
                "themselves. To compare a batch with itself, create the geometry without columns."
            )
        return embeddings

    @abstractmethod
    def mine(self, geometry: Geometry, labels: Tensor, generator: torch.Generator) -> Tuples:
        """The tuples of a checked batch: labels int64 of the geometry's columns, the first of which are its rows."""

    @cached_property
    def _own_generator(self) -> torch.Generator:
        return stream(0, "miner")


def check_batch(rows: Tensor, labels: Tensor, who: str) -> None:
    """Refuse anything but embeddings (b, d) with one integer label each. `who`: the caller's name for messages."""
    if not isinstance(rows, Tensor) or not isinstance(labels, Tensor):
        raise BadInput(f"{who} got {kind_of(rows)} as embeddings and {kind_of(labels)} as labels; use tensors.")
    if rows.dim() != 2 or labels.dim() != 1 or not rows.is_floating_point():
        raise BadInput(
            f"{who} got embeddings of shape {tuple(rows.shape)} ({rows.dtype}) and "
            f"labels of shape {tuple(labels.shape)}: expected floating-point rows (batch, dim) and labels (batch,)."
        )
    if len(rows) != len(labels):
        raise BadInput(f"{who} got {len(rows)} embeddings but {len(labels)} labels: one label per embedding is needed.")
    if rows.device != labels.device:
        raise BadInput(
            f"{who} got embeddings on {rows.device} but labels on {labels.device}: move the labels, "
            "labels.to(embeddings.device)."
        )
    if labels.is_floating_point() or labels.is_complex():
        raise BadInput(f"{who} got labels of type {labels.dtype}; they must be integers.")


def kind_of(value: Any) -> str:
    """A description of a value for messages.

    >>> kind_of(torch.ones(2, 3)), kind_of(7), kind_of((torch.ones(2), torch.ones(2)))
    ('a tensor of shape (2, 3)', 'a value of type int', 'a tuple of 2')
    """
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    name = type(value).__name__
    return f"a {name} of {len(value)}" if isinstance(value, tuple | list) else f"a value of type {name}"


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
names = registry.names  # the names of all miners
_Entry = TypeVar("_Entry", bound=type)
_M = TypeVar("_M", bound=Miner)


def register(name: str, facts: MinerFacts) -> Callable[[_Entry], _Entry]:
    """Decorator: register a miner class under `name`."""

    def enter(entry: _Entry) -> _Entry:
        registry.register(name, replace(facts, defaults=accepted(entry) or {}))(entry)
        return entry

    return enter


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

        return _switched(PMLMiner(name, settings), switch)
    entry = registry.get(name)
    check_settings(f"miner '{name}'", settings, entry, also=["switch"])
    return _switched(entry(**settings), switch)


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
    return _switched(choice, switch)


def _switched(miner: _M, switch: float) -> _M | BaseMiner:
    from levelfield.miners.switch import Switched

    return Switched(miner, switch) if switch else miner
