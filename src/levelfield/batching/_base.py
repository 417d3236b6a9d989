"""The base of every batching: epoch length, distribution over processes, state."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, ClassVar, NamedTuple, Self, TypedDict

import numpy as np

from levelfield.batching._groups import Groups, Labels, as_labels
from levelfield.errors import BadInput, BadSpecification
from levelfield.randomness import numpy_stream
from levelfield.settings import Count, Natural, accepted, check_calls, checked

COMMON = ("labels", "batch_size", "seed", "batches_per_epoch", "rank", "world")  # arguments of every batching


class Common(TypedDict, total=False):
    """Settings that every batching has besides the batch size; a subclass passes them on as `**common`."""

    seed: int
    batches_per_epoch: int | None
    rank: int
    world: int


class Promise(NamedTuple):
    """Guarantees for every batch of a plan, independent of the random draws."""

    classes: int  # minimum number of distinct classes
    together: int  # at least one class has this many images
    most: int  # maximum images of a class
    most_classes: int | None = None  # maximum number of distinct classes; None: unknown

    @classmethod
    def of_groups(cls, classes: int, n: int) -> Promise:
        """Batches of `n` images of each of `classes` distinct classes."""
        return cls(classes, n, n, classes)

    @classmethod
    def of_images(cls, sizes: np.ndarray, batch_size: int) -> Promise:
        """Batches of distinct images from classes with these `sizes`.

        >>> Promise.of_images(np.array([1, 2, 5]), 6)
        Promise(classes=2, together=3, most=5, most_classes=3)
        """
        largest = np.sort(sizes)[::-1]
        fewest = int(np.searchsorted(np.cumsum(largest), batch_size)) + 1  # if the batch has the largest classes
        together = next(most for most in count(1) if np.minimum(sizes, most).sum() >= batch_size)  # if evenly spread
        return cls(fewest, together, min(batch_size, int(largest[0])), min(batch_size, len(sizes)))


class Batching(ABC):
    """Chooses the images of each batch. Usable as the `batch_sampler` of a torch DataLoader.

    The plan of an epoch is a pure function of (labels, settings, seed, epoch). Iteration yields the batches of the
    current epoch and then moves to the next one; `set_epoch` moves to any epoch.

    A subclass sets `group` (images that stay together in one process) and, unless small classes repeat images,
    `_groups` before calling this constructor, implements `_plan`, and overrides `promise` if it guarantees more than
    any batch of that size.
    """

    name: str = ""
    search: ClassVar[Mapping[str, Any]] = {}
    """Search ranges: setting -> (low, high, "log" or "linear") or choices."""
    needs_memory: bool = False
    group: int = 1
    _arguments: Mapping[str, Any]
    _groups: Groups

    def __new__(cls, *_: Any, **arguments: Any) -> Self:
        batching = super().__new__(cls)
        batching._arguments = arguments
        return batching

    def __init_subclass__(cls, **more: Any) -> None:
        """Add the keywords passed on as `**common` to the signature, so that a wrong one is detected."""
        super().__init_subclass__(**more)
        check_calls(cls)
        takes = dict(list(inspect.signature(cls.__init__).parameters.items())[1:])
        known = {name: p for name, p in takes.items() if p.kind is not p.VAR_KEYWORD}
        if len(known) < len(takes):
            assert cls.__base__ is not None
            shared = inspect.signature(cls.__base__.__init__ if cls.__base__ is Batching else cls.__base__).parameters
            known |= {name: p for name, p in shared.items() if name not in known and name != "self"}
        cls.__signature__ = inspect.Signature(list(known.values()))  # type: ignore[attr-defined]

    @checked
    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: Count,
        seed: Natural = 0,
        batches_per_epoch: Count | None = None,
        rank: Natural = 0,
        world: Count = 1,
    ) -> None:
        self.labels = as_labels(labels)
        if not hasattr(self, "_groups"):
            self._groups = Groups.of(self.labels, self.group)
        self.batch_size, self.seed, self.rank, self.world = batch_size, seed, rank, world
        if batch_size % self.group:
            raise BadSpecification(f"batch_size {batch_size} is not a multiple of {self.group} images per class.")
        if rank >= world or (batch_size // self.group) % world:
            raise BadSpecification(
                f"A batch of {batch_size // self.group} groups of {self.group} cannot be shared by "
                f"{world} processes (rank {rank})."
            )
        if batches_per_epoch is None and batch_size > len(self.labels):
            raise BadSpecification(
                f"A batch of {batch_size} is too large for {len(self.labels)} images: choose a smaller "
                "batch, or set batches_per_epoch."
            )
        # As in Roth et al. 2020, every batching has the same number of updates.
        self.batches = batches_per_epoch or len(self.labels) // batch_size
        self.epoch, self.step = 0, 0

    @abstractmethod
    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        """[batches, batch_size] positions in `labels`; groups are contiguous."""

    @property
    def classes_per_batch(self) -> int:
        return self.batch_size // self.group

    @property
    def repeating(self) -> int:
        """Number of classes with fewer images than a group, which repeat images."""
        return self._groups.few if self._groups.small in ("repeat", "replace") else 0

    @property
    def skipped(self) -> int:
        """Number of classes skipped because they have too few images."""
        return self._groups.few if self._groups.small == "skip" else 0

    @property
    def roles(self) -> dict[str, np.ndarray] | None:
        """Rows of this process's share by role, the same in every batch; None without roles."""
        return None

    def promise(self) -> Promise:
        """Guarantees for every batch; by default what follows from its size and the number of classes."""
        return Promise(1, -(-self.batch_size // len(np.unique(self.labels))), self.batch_size)

    def settings(self) -> dict[str, Any]:
        """What determines a plan besides labels, seed and epoch."""
        takes = accepted(type(self)) or {}
        chosen = {key: self._arguments.get(key, default) for key, default in takes.items() if key not in COMMON}
        return {"batch_size": self.batch_size, "batches": self.batches, **chosen}

    def plan(self, epoch: int, memory: np.ndarray | None = None) -> np.ndarray:
        """All batches of an epoch; does not change `epoch` and `step`.

        Args:
            epoch: from 0.
            memory: (images, dim) float32, the last known embedding of each image, for batchings that need it.

        Returns:
            int32 (batches, batch_size / world): positions in `labels`, this process's groups of each batch.
        """
        share = self.batch_size // self.world
        return self._whole(epoch, memory)[:, self.rank * share : (self.rank + 1) * share]

    def _whole(self, epoch: int, memory: np.ndarray | None) -> np.ndarray:
        """The plan of all processes together."""
        return self._plan(numpy_stream(self.seed, "batching", epoch), memory).astype(np.int32)

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Move to batch `step` of `epoch`."""
        if epoch < 0 or not 0 <= step <= self.batches:
            raise BadInput(f"Epoch {epoch} has no batch {step}; an epoch has {self.batches} batches.")
        self.epoch, self.step = epoch, step

    def is_due(self, epoch: int) -> bool:
        """Whether the memory must be filled before `epoch` is planned."""
        return False

    def fill(self, rows: np.ndarray) -> None:  # noqa: B027
        """Store an embedding of every image."""

    @property
    def memory_age(self) -> float | None:
        """Mean number of steps since the rows of the memory were written; None without a memory."""
        return None

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:  # noqa: B027  (listening is optional)
        """Called after each step. Ignored by batchings that use only labels."""

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the current epoch from `step`, each a list of positions in `labels`; then advance
        `epoch`. With several processes: this process's share of each batch."""
        epoch, first = self.epoch, self.step
        for number, batch in enumerate(self.plan(epoch)[first:], first):
            self.step = number + 1
            yield batch.tolist()
        self.epoch, self.step = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """`step` counts batches returned so far. A prefetching loader is ahead of training; then use `set_epoch`."""
        position = {"epoch": self.epoch, "step": self.step}
        return {**position, "seed": self.seed, "settings": self.settings(), "labels": self._fingerprint()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`. Refused if labels, seed or settings differ: the batches would differ."""
        present = self.state_dict()
        for key in ("labels", "seed", "settings"):
            if state[key] != present[key]:
                raise BadInput(f"The state is of another batching: its {key} is {state[key]}, not {present[key]}.")
        self.set_epoch(int(state["epoch"]), int(state["step"]))

    def _fingerprint(self) -> str:
        """A hash of the partition into classes: renaming labels in the same order does not change it."""
        dense = np.unique(self.labels, return_inverse=True)[1].astype(np.int64)
        return hashlib.blake2b(dense.tobytes(), digest_size=16).hexdigest()
