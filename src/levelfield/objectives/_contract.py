"""The interface of an objective: its facts, its call, and the shared state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce, wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import torch
from torch import Tensor, nn

from levelfield.errors import BadInput
from levelfield.geometry import Geometry, full_precision, working
from levelfield.miners import All, MinerChoice, Switched, Tuples, resolve
from levelfield.objectives._inputs import LossInputs as LossInputs
from levelfield.objectives._inputs import checked
from levelfield.objectives._parts.start import StartRows
from levelfield.randomness import stream
from levelfield.registry import Registry
from levelfield.settings import accepted, check_calls


@dataclass(frozen=True)
class ObjectiveFacts:
    """Facts of an objective, from which tables, `levelfield list` and the ledger are generated."""

    paper: str
    formula: str
    equation: str = ""  # source of the formula
    use: str = ""  # when to use it, in one sentence
    tuples: str = "none"  # kind of `tuples` that a call takes: "pairs", "triplets", "none"
    least: tuple[int, int] = (2, 2)  # minimum number of classes in a batch, of images of one class; (1, 1) if separable
    batch: str = ""  # the same and more in words; default: from `least`
    roles: tuple[str, ...] = ()  # supported keys of `roles`
    miners: tuple[str, ...] = ()  # suitable miners, the default first
    sources: Mapping[str, str] = field(default_factory=dict)  # setting -> source of its default
    search: Mapping[str, Any] = field(default_factory=dict)  # setting -> (low, high, "log" or "linear") or choices
    published_lr: float | None = None  # the head's rate that the default `*_lr_multiplier`s refer to; None: all are 1
    separable: bool = False  # the loss is a mean over independent samples
    distributions: bool = False  # it learns a mean and variances of each class
    memory: bool = False  # supports a memory of earlier batches (`LossInputs.columns`)
    weights: bool = True  # takes a weight per anchor
    tags: Mapping[str, str] = field(default_factory=dict)  # law that does not apply -> reason, in one sentence
    name: str = ""  # set on registration
    needs: tuple[str, ...] = ()  # "num_classes", "dim"; read from the constructor on registration
    defaults: Mapping[str, Any] = field(default_factory=dict)  # likewise
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # "roth2020/cars" -> settings


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Objective(nn.Module):
    """`objective(embeddings, labels) -> loss`. A subclass implements `parts`: named terms whose sum is the loss.

    Annotated attributes of a subclass without `__init__` are its settings, checked when it is created; `__post_init__`
    creates its parameters. A subclass may also have an `__init__` of its own.

    Without a `generator` the objective uses its own, created from seed 0 and saved in `state_dict`.
    """

    facts: ClassVar[ObjectiveFacts] = ObjectiveFacts(paper="", formula="", tuples="pairs")
    active: Tensor | int | None = None  # number of non-zero tuples or terms in the last call
    dim: int | None = None  # required row length; None: any
    num_classes: int | None = None  # labels must be 0 to num_classes - 1; None: any labels
    switched: Tensor | None = None  # share of tuples changed by `switch` in the last call
    class_sample: float = 1.0  # share of the classes that a call compares with, besides those of the batch
    last_class_sample: float = 1.0  # that share in the last call
    local_classes: slice = slice(None)  # the classes whose vectors this process has
    miner: Any  # a `MinerChoice`; once created a `Miner`, or None: all tuples, not listed
    switch: float = 0.0

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _write_constructor(cls)
        check_calls(cls)

    def __init__(self, *, miner: MinerChoice | None = None, switch: float = 0.0, **hints: Any) -> None:
        super().__init__()
        self.miner, self.switch = miner, switch
        Objective.__post_init__(self, **hints)

    def __post_init__(self, **hints: Any) -> None:
        """`hints`: suggestions for the miner, see `miners.resolve`."""
        choice = getattr(self, "miner", None)
        miner = None if choice is None else resolve(choice, switch=self.switch, **hints)
        self.miner = None if isinstance(miner, All) else miner
        self.logged_terms: dict[str, Tensor] = {}
        """The terms of the last call by name, without gradients, for the log; empty if the loss has one term."""
        self._own_generator = stream(0, "objective")

    def parts(self, inputs: LossInputs) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__} must define its terms: def parts(self, inputs).")

    def quick(self, inputs: LossInputs) -> Tensor | None:
        """The same loss in closed form (`_parts.closed`), without second derivatives; None if only the definition
        applies. Called for batches with rows and without weights or memory.
        """
        return None

    def total(self, terms: Mapping[str, Tensor]) -> Tensor:
        """Add up the named terms and keep them for the log, as tensors, without device synchronisation."""
        self.logged_terms = {name: term.detach() for name, term in terms.items()} if len(terms) > 1 else {}
        return sum_of(terms)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        tuples: Tuples | None = None,
        weights: Tensor | None = None,
        roles: Any = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: (batch, dim) raw rows; the objective normalises them if its definition requires it.
            labels: (batch,) integers; objectives with a vector per class need 0..num_classes-1.
            tuples: triplets (t, 3) or pairs (t, 2) of positions in the batch, or positive (p, 2) and negative (q, 2)
                pairs, used instead of the miner's tuples.
            weights: (batch,) factors of each anchor's terms; the divisor does not change.
            roles: rows of the batch by role, as given by the batching (`Batching.roles`).
            generator: source of random numbers; default: the objective's own.

        Returns:
            The loss, a tensor of shape () with gradients.
        """
        inputs = LossInputs(embeddings, labels, tuples, weights, roles, generator or self._own_generator)
        return self.loss_of(checked(inputs, self))

    if TYPE_CHECKING:  # torch declares `Callable[..., Any]` for every module
        __call__ = forward

    def loss_of(self, inputs: LossInputs) -> Tensor:
        """The loss of validated input, in closed form if there is one."""
        with full_precision(inputs.embeddings.device.type):
            plain = inputs.columns is None and inputs.weights is None and len(inputs.labels)
            value = self.quick(inputs) if plain else None
            return self.total(self.parts(inputs)) if value is None else value

    def terms(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        tuples: Tuples | None = None,
        weights: Tensor | None = None,
        roles: Any = None,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """The named terms of the loss by its definition, each differentiable; a plain call stores their values in
        `logged_terms`."""
        inputs = LossInputs(embeddings, labels, tuples, weights, roles, generator or self._own_generator)
        with full_precision(embeddings.device.type):
            return self.parts(checked(inputs, self))

    def logits(self, embeddings: Tensor) -> Tensor | None:
        """Class logits (b, C) of raw rows, whose softmax is trained (without margin); None if it is not a classifier.

        >>> from levelfield import objectives
        >>> objectives.create("softmax", num_classes=3, dim=2).logits(torch.zeros(1, 2))
        tensor([[0., 0., 0.]], grad_fn=<DivBackward0>)
        """
        return None

    def lr_multipliers(self) -> dict[str, float]:
        """Learning rate of each own parameter as a multiple of the head's."""
        return {}

    def optimisers(self) -> dict[str, str]:
        """Own parameters with a different optimiser than that of the conditions."""
        return {}

    def part_of(self, parameter: str) -> str:
        """Name of an own parameter in the ledger: its sub-network, else its own name."""
        return parameter.split(".")[0]

    @property
    def class_vectors(self) -> nn.Parameter | None:
        """Learned class representatives in embedding space, (C k, d) class by class; None without."""
        return None

    @property
    def shards(self) -> dict[str, int]:
        """Own parameters of which this process has only its share of rows (`Ranks.share`): name -> rows of all."""
        return {}

    def start_from(self, start: StartRows) -> None:
        """Initialise own parameters other than `class_vectors` from the first embeddings (`proxies: class_means`).

        Parameters that it leaves at random values are a deviation in the ledger: `start of network its own`.
        """

    def leave_norm_to_head(self) -> bool:
        """Stop normalising the rows by a layer norm, because a run's head does it, for test rows too.

        False if the objective has no layer norm.
        """
        return False

    @property
    def learned_buffers(self) -> int:
        """Number of buffer values that calls have changed, for the ledger."""
        return 0

    @property
    def separable(self) -> bool:
        return self.facts.separable

    @property
    def takes_weights(self) -> bool:
        return self.facts.weights

    def takes_everything(self, inputs: LossInputs) -> bool:
        """Whether the whole batch is used: no tuples given and no miner."""
        return inputs.tuples is None and self.miner is None

    def tuples_of(self, geometry: Geometry, inputs: LossInputs) -> Tuples | None:
        """The tuples of the call, else the mined ones; None means the whole batch."""
        if inputs.tuples is not None or self.miner is None:
            return inputs.tuples
        tuples: Tuples = self.miner(geometry.detached(), inputs.labels, generator=inputs.generator)
        if isinstance(self.miner, Switched) and isinstance(tuples, Tensor):
            # no plain miner returns the anchor as its own positive
            self.switched = (tuples[:, 0] == tuples[:, 1]).sum() / max(1, len(tuples))
        return tuples

    def triplets_of(self, geometry: Geometry, inputs: LossInputs) -> Tensor | None:
        """Like `tuples_of`, for objectives that only support triplets (t, 3)."""
        triplets = self.tuples_of(geometry, inputs)
        if triplets is None or (isinstance(triplets, Tensor) and triplets.dim() == 2 and triplets.shape[1] == 3):
            return triplets
        got = f"a tensor of shape {tuple(triplets.shape)}" if isinstance(triplets, Tensor) else "pairs"
        raise BadInput(f"{self.who} needs triplets, a tensor of shape (t, 3), but got {got}.")

    def get_extra_state(self) -> Tensor:
        return self._own_generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self._own_generator.set_state(state.cpu())

    def working(self, rows: Tensor) -> Tensor:
        """Rows in the higher precision of themselves and the parameters, at least float32."""
        dtype = next((parameter.dtype for parameter in self.parameters()), rows.dtype)
        return working(rows.to(torch.promote_types(rows.dtype, dtype)))

    @property
    def who(self) -> str:
        """The objective in messages."""
        return f"Objective '{self.facts.name or type(self).__name__}'"


def _write_constructor(kind: type[Objective]) -> None:
    """Write `__init__` from the annotations of a class; if it or a parent has one of its own, that remains."""
    constructor = kind.__init__
    written = constructor is Objective.__init__ or hasattr(constructor, "of_settings")
    if "__init__" in vars(kind) or not written or "__annotations__" not in vars(kind):
        return
    for name in vars(kind)["__annotations__"].keys() - vars(kind).keys():
        setattr(kind, name, field())  # without a default, even if a parent has an attribute of this name
    dataclass(kw_only=True, eq=False, repr=False)(kind)
    store = kind.__init__

    @wraps(store)
    def create(self: Objective, **settings: Any) -> None:
        nn.Module.__init__(self)
        store(self, **settings)

    create.of_settings = True  # type: ignore[attr-defined]
    kind.__init__ = create  # type: ignore[method-assign]
    for name in (accepted(kind) or {}).keys() & vars(kind).keys():
        delattr(kind, name)  # a default in the class would hide a module or parameter of this name


def sum_of(terms: Mapping[str, Tensor]) -> Tensor:
    """Sum of the named terms."""
    return reduce(torch.add, terms.values())


registry = Registry[nn.Module]("objective", "objectives", home="levelfield.objectives")
_Entry = TypeVar("_Entry", bound=type)


def register(name: str, facts: ObjectiveFacts) -> Callable[[_Entry], _Entry]:
    """Decorator: register an objective class under `name` with its facts."""

    def enter(entry: _Entry) -> _Entry:
        takes, inherited = accepted(entry) or {}, accepted(entry.__mro__[1]) or {}
        takes = {key: takes[key] for key in sorted(takes, key=inherited.__contains__)}  # its own first
        needs = tuple(key for key in ("num_classes", "dim") if takes.get(key) is Parameter.empty)
        least = (1, 1) if facts.separable else facts.least
        batch = facts.batch or ("any" if least == (1, 1) else "2 per class")
        complete = replace(facts, name=name, needs=needs, least=least, batch=batch, defaults=takes)
        if issubclass(entry, Objective):
            entry.facts = complete
        registry.register(name, complete)(entry)
        return entry

    return enter
