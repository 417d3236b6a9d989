"""The interface of a method: an objective with its miner, batching and further parts.

The loop calls the method's interface and never checks which method it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from levelfield.batching import Batching, Choice, Layout
from levelfield.errors import BadSpecification
from levelfield.geometry import working
from levelfield.methods._parameters import Group, own_groups, put_proxies
from levelfield.objectives import CrossBatchMemory, Objective
from levelfield.objectives._parts.start import StartRows
from levelfield.registry import Registry
from levelfield.settings import Positive, check_calls, checked

if TYPE_CHECKING:
    from levelfield.distributed.ranks import Ranks
    from levelfield.embedder import Trunk
    from levelfield.embedder.trunk.trunk import Change
    from levelfield.methods.refine.passing import Refinement

Inputs = Tensor | tuple[Tensor, ...]  # images (rows, 3, side, side), or the stored tensors below the cut


@dataclass(frozen=True)
class Batch:
    """A batch that the loop passes to a method: images or their cached features."""

    inputs: Inputs
    labels: Tensor
    indices: np.ndarray
    roles: Mapping[str, np.ndarray] | None
    epoch: int
    step: int

    def parts(self, count: int) -> list[Batch]:
        """Split the batch into `count` equal slices, for gradient accumulation."""
        if count == 1:
            return [self]
        if len(self.labels) % count:
            raise BadSpecification(f"accumulate: {count} does not divide the batch of {len(self.labels)}.")
        size, parts = len(self.labels) // count, []
        for rows in (slice(k * size, (k + 1) * size) for k in range(count)):
            inputs = self.inputs[rows] if isinstance(self.inputs, Tensor) else tuple(part[rows] for part in self.inputs)
            # roles refer to rows of the whole batch; accumulated objectives do not use them
            parts.append(Batch(inputs, self.labels[rows], self.indices[rows], None, self.epoch, self.step))
        return parts


@dataclass(frozen=True)
class TrainingFeatures:
    """Features of the training images from the untrained trunk (test view), for heads that are computed from data.

    rows: computes them (images, width).
    """

    width: int
    labels: np.ndarray
    rows: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Setting:
    """Facts of the run that a method may use."""

    dim: int  # embedding size set by the conditions
    width: int  # of the features that a head gets
    seed: int = 0
    common_head: int = 0  # number of parameters of the common head, which a method's own head replaces
    tested: bool = True  # whether there are test images, for test-time message passing
    decay: str = "weights"  # own parameters with the weight decay of the conditions: weights, all or network (none)
    output_norm: bool = False  # whether the common head of the conditions ends with a layer norm


def wider_head(method: Method, setting: Setting) -> int:
    """Extra parameters of the common head if the method uses a larger embedding than the conditions.

    The savings of a smaller head are not credited.
    """
    more = max(0, method.dim_for(setting.dim) - setting.dim)
    return more * (setting.width + 1) if method.trains else 0  # weights and bias per dimension


class Method(nn.Module):
    """A method to compare. The base class is one objective on the common head; everything may be overridden.

    trains: false for closed-form methods and untrained baselines, which take no steps.
    seeded: false if the method is deterministic: one run is enough.
    tunable: false if the method has no settings to choose, so that a tuning budget does not apply.
    search: ranges of a method that is not an objective: `{"shrinkage": (0.05, 0.9, "linear")}`.
    teacher_output: what it learns from a teacher, "rows" or "logits" of the training images (see `receive_teacher`).
    learns_from: the teacher, as the ledger names it.
    joins: true if it trains nothing and concatenates the embeddings of the runs that it requires.
    divisible: false if a step mixes hidden states of images, which must then be one piece.
    """

    trains = True
    seeded = True
    tunable = True
    search: ClassVar[dict[str, Any]] = {}
    teacher_output: str | None = None
    learns_from = ""
    joins: ClassVar[bool] = False
    members = 1
    divisible: ClassVar[bool] = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        check_calls(cls)

    @checked
    def __init__(
        self,
        objective: nn.Module | None = None,
        *,
        batch: str | None = None,
        batching: str | Mapping[str, Any] | None = None,
        lr: Positive | None = None,
        refine: Any = None,
        trials: int = 0,
    ) -> None:
        super().__init__()
        self.objective = objective
        # whether the common head must end with a layer norm without parameters
        self.norm_rows = isinstance(objective, Objective) and objective.leave_norm_to_head()
        self.refinement: Refinement | None = None
        if refine is not None and refine is not False:
            from levelfield.methods.refine.passing import Refinement  # imports clusterings only if needed

            self.refinement = Refinement.of(refine)
            self.refinement.width(objective)
        self.layout = Layout.parse(str(batch)) if batch is not None else None
        self.batching, self.trials = batching, trials
        self.lr = lr
        # terms of the last step's loss, if `step` returns only one
        self.logged_terms: Mapping[str, Tensor] = {}

    @classmethod
    def requires(cls, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Finished runs that a method with these settings needs: labels of the study, or run folders."""
        return ()

    @classmethod
    def joined_seeds(cls, settings: Mapping[str, Any]) -> str | tuple[int, ...]:
        """Seeds that one run joins: "each" separately, "all" together, or a list. Used only if `joins` is true."""
        return "each"

    @classmethod
    def wrapped(cls, settings: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Objectives inside a method with these settings: the setting that has theirs, their name and settings."""
        return {}

    def head(self, features: TrainingFeatures, setting: Setting) -> nn.Module | None:
        """The method's own head with random weights; None: the head of the conditions.

        If the conditions initialise heads from the training features (`head_init`), a head with a function
        `principal_start(features, *, whiten) -> {parameter: array}` is initialised with these arrays, see
        `RelationHead`. A head without this function keeps its own initialisation, which the ledger lists.
        """
        return None

    def dim_for(self, dim: int) -> int:
        """Embedding size of the common head, given `dim` of the conditions."""
        return dim

    def groups(self) -> list[Group]:
        """The method's own parameters (proxies, boundaries), in groups with their learning rates."""
        return [] if self.objective is None else own_groups(self.objective)

    def check(self, trunk: Trunk, batching: Batching) -> None:
        """Refuse a trunk or batching that the method does not support. Called before anything runs."""
        if isinstance(self.objective, CrossBatchMemory):
            self.objective.check_batch(batching.batch_size)

    def embed(self, embedder: nn.Module, inputs: Inputs, *, change: Change | None = None) -> Tensor:
        """Raw rows, in float32 (float64 for a network in float64). change: see `Trunk.above`."""
        rows: Tensor = embedder(inputs) if change is None else embedder(inputs, change=change)
        return working(rows)

    def step(self, embedder: nn.Module, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """The named terms whose sum is minimised. An objective's loss is one term; its parts are logged."""
        return self.losses(self.embed(embedder, batch.inputs), batch, generator)

    def losses(self, rows: Tensor, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """The objective's loss of the batch's raw rows (b, d)."""
        objective: Any = self.objective
        if not isinstance(objective, Objective):
            return {"loss": objective(rows, batch.labels)}
        loss = objective(rows, batch.labels, roles=self.used_roles(batch.roles) or None, generator=generator)
        self.logged_terms = objective.logged_terms
        return {"loss": loss}

    def receive_teacher(self, outputs: np.ndarray) -> None:
        """Receive the teacher's `teacher_output`: one row per training image, indexed by `Batch.indices`."""
        raise BadSpecification(f"{type(self).__name__} does not learn from a teacher.")

    def used_roles(self, roles: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray]:
        """The subset of `roles` that the objective uses."""
        asked = getattr(getattr(self.objective, "facts", None), "roles", ())
        return {name: rows for name, rows in (roles or {}).items() if name in asked}

    def active(self) -> Tensor | int | None:
        """Number of tuples used in the last step, perhaps still on the device; None if the objective has no tuples."""
        return getattr(self.objective, "active", None)

    def counts(self) -> dict[str, float]:
        """Further values of the last step for the log."""
        switched = getattr(self.objective, "switched", None)
        return {} if switched is None else {"switched": float(switched)}

    @property
    def last_class_sample(self) -> float:
        """Share of the classes that the last step compared with, besides those of its batch; 1: all, or no classes."""
        return float(getattr(self.objective, "last_class_sample", 1.0))

    @property
    def shards(self) -> dict[str, int]:
        """Own parameters of which this process has only its share of rows: name -> rows of all processes."""
        shards: dict[str, int] = getattr(self.objective, "shards", {})
        return {f"objective.{name}": rows for name, rows in shards.items()}

    @property
    def remote_parameters(self) -> int:
        """Number of own parameters that other processes have."""
        local = dict(self.named_parameters())
        return sum((rows - len(local[name])) * local[name][:1].numel() for name, rows in self.shards.items())

    @property
    def separable(self) -> bool:
        """Whether the loss is a mean over independent parts, so that `accumulate` needs only one pass."""
        return bool(getattr(self.objective, "separable", False))

    @property
    def proxies(self) -> nn.Parameter | None:
        """Class vectors of the objective: one row per class, or several centres per class; None without."""
        return getattr(self.objective, "class_vectors", None)

    @torch.no_grad()
    def start_proxies(self, class_means: Tensor) -> None:
        """Set proxies to the class means of the initial embedding; several centres of a class are offset by a tenth."""
        put_proxies(self.proxies, class_means[getattr(self.objective, "local_classes", slice(None))])

    @property
    def can_start_from_rows(self) -> bool:
        """Whether own parameters can start from the first embeddings, see `start_from`."""
        started = type(self.objective).start_from if isinstance(self.objective, Objective) else None
        return self.proxies is not None or started not in (None, Objective.start_from)

    def start_from(self, start: StartRows) -> None:
        """Initialise own parameters from the first embeddings of the training images (`proxies: class_means`)."""
        self.start_proxies(start.unit.means())
        if isinstance(self.objective, Objective):
            self.objective.start_from(start)

    def labels(self, labels: np.ndarray, member: int, seed: int) -> np.ndarray:
        """Labels that one of several members uses for the classes 0, 1, ... of the training images."""
        return labels

    def refine(self, embeddings: np.ndarray, gallery: np.ndarray | None = None) -> np.ndarray:
        """Embeddings compared at test time, from stored rows; with a gallery, the rows are its queries."""
        return embeddings if self.refinement is None else self.refinement(self.objective, embeddings, gallery)

    @property
    def refines(self) -> str:
        """Description of `refine` for the ledger."""
        return "yes" if self.refinement is None else self.refinement.text

    def deviations(self, setting: Setting) -> dict[str, Any]:
        """Declared deviations of this method from the conditions: the method's value by the name of the deviation.

        Own parameters and learning rates follow from `groups`.
        """
        groups = self.groups()
        declared: dict[str, Any] = {} if self.trains else {"steps": 0}
        declared |= {f"lr_of_{group.name}": group.multiplier for group in groups if group.multiplier != 1.0}
        decays = {f"weight_decay_of_{group.name}": group.decay_under(setting.decay) for group in groups}
        declared |= {name: decay for name, decay in decays.items() if decay is not None}
        declared |= {f"optimiser_of_{group.name}": group.optimiser for group in groups if group.optimiser is not None}
        count = sum(p.numel() for group in groups for p in group.parameters)
        if extra := wider_head(self, setting) + count + self.remote_parameters:
            declared["extra_parameters"] = extra
        if learned := getattr(self.objective, "learned_buffers", 0):
            declared["learned_buffers"] = learned
        if (share := getattr(self.objective, "class_sample", 1.0)) != 1:
            declared["class_sample"] = share
        if self.norm_rows and not setting.output_norm:
            declared["head_norm"] = "yes"
        if self.layout is not None:
            declared["batch"] = str(self.layout)
        if self.batching is not None or self.layout is not None:
            declared["batching"] = str(Choice.of(self.batching, self.layout))
        if self.lr is not None:
            declared["lr"] = self.lr
        if self.refinement is not None and setting.tested:
            declared |= {"refined": self.refines, "dim": self.refinement.width(self.objective)}
        return declared


def total_of(counts: Iterable[Tensor | int | None]) -> Tensor | int | None:
    """Sum of the known counts, without waiting for the device; None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Assembly:
    """How a method is made of an objective. An option returns a changed copy.

    name, settings: of the objective, with the facts of the run: `num_classes`, `dim` and `generator`.
    make_objective: creates the objective; keywords replace settings.
    make_method: creates the method from the objective and the settings that every method has.
    """

    name: str
    settings: Mapping[str, Any]
    ranks: Ranks
    make_objective: Callable[..., Any]
    make_method: Callable[..., Method] = Method


@dataclass(frozen=True)
class OptionFacts:
    """Facts of an option. conflicts: options that cannot be combined with it, and why. kind: the resulting class."""

    conflicts: Mapping[str, str]
    kind: type[Method]


registry: Registry[Method] = Registry("method", "methods", home="levelfield.methods")
register = registry.register  # decorator: register a `Method` under a name
options: Registry[Assembly] = Registry("option", "options", home="levelfield.methods")
_Change = Callable[[Assembly, Any], Assembly]


def option(
    name: str, *, conflicts: Mapping[str, str] | None = None, kind: type[Method] = Method
) -> Callable[[_Change], _Change]:
    """Decorator: register `change(assembly, value) -> assembly` as the setting `name` of all methods with an objective.

    conflicts: other options that it cannot be combined with, and why. kind: the class of the resulting method.
    """
    return options.register(name, OptionFacts(conflicts or {}, kind))
