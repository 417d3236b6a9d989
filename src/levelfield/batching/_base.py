"""The base of every batching: settings, epoch length, state.

Without postponed annotations: subclasses inherit the types of settings, whatever their module imports.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import numpy as np

from levelfield.batching._groups import Groups, Labels, as_labels
from levelfield.errors import BadInput, BadSpecification
from levelfield.randomness import numpy_stream
from levelfield.settings import Count, Natural, accepted, check_calls

COMMON = ("labels", "batch_size", "seed", "batches_per_epoch")  # arguments of every batching


class Promise(NamedTuple):
    """Guarantees for every batch of a plan, independent of the random draws."""

    classes: int  # minimum number of distinct classes
    together: int  # at least one class has this many images
    most: int  # maximum images of a class
    most_classes: int | None = None  # maximum number of distinct classes; None: unknown

    @classmethod
    def of_images(cls, sizes: np.ndarray, batch_size: int) -> Self:
        """Batches of distinct images from classes with these `sizes`.

        >>> Promise.of_images(np.array([1, 2, 5]), 6)
        Promise(classes=2, together=3, most=5, most_classes=3)
        """
        largest = np.sort(sizes)[::-1]
        fewest = int(np.searchsorted(np.cumsum(largest), batch_size)) + 1  # if the batch has the largest classes
        together = next(most for most in count(1) if np.minimum(sizes, most).sum() >= batch_size)  # if evenly spread
        return cls(fewest, together, min(batch_size, int(largest[0])), min(batch_size, len(sizes)))


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class _Settings:
    """Annotated attributes of a subclass are its settings, checked when it is created."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            raise BadSpecification(
                f"The batching {cls.__name__} has its own __init__, which would leave its settings unchecked: write "
                "the settings as annotated fields and use __post_init__."
            )
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        check_calls(cls)


class Batching(_Settings, ABC):
    """Chooses the images of each batch. Usable as the `batch_sampler` of a torch DataLoader.

    The plan of an epoch is a pure function of (labels, settings, seed, epoch). Iteration yields the batches of the
    current epoch and then moves to the next one; `set_epoch` moves to any epoch.

    A subclass names its settings as annotated attributes, sets `group` (images of one class)
    and `distinct` (whether the groups of a batch are of distinct classes) before it calls this class's `__post_init__`,
    implements `_plan`, and overrides `promise` if it guarantees more.
    """

    name: ClassVar[str] = ""
    search: ClassVar[Mapping[str, Any]] = {}  # search ranges: setting -> (low, high, "log" or "linear") or choices
    needs_memory: ClassVar[bool] = False
    group = 1
    small = "repeat"
    distinct = False

    labels: Labels = field(kw_only=False)
    batch_size: Count
    seed: Natural = 0
    batches_per_epoch: Count | None = None

    def __post_init__(self) -> None:
        self.labels = as_labels(self.labels)
        if not hasattr(self, "_groups"):
            self._groups = Groups.of(self.labels, self.group, small=self.small)
        if self.batch_size % self.group:
            raise BadSpecification(f"batch_size {self.batch_size} is not a multiple of {self.group} images per class.")
        if self.batches_per_epoch is None and self.batch_size > len(self.labels):
            raise BadSpecification(
                f"A batch of {self.batch_size} is too large for {len(self.labels)} images: choose a smaller batch, or "
                "set batches_per_epoch."
            )
        if self.distinct:
            self._groups.need(self.classes_per_batch, self.batch_size)
        # As in Roth et al. 2020, every batching has the same number of updates.
        self.batches = self.batches_per_epoch or len(self.labels) // self.batch_size
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
        """Rows by role, the same in every batch; None without roles."""
        return None

    def promise(self) -> Promise:
        """Guarantees for every batch; by default what follows from its groups or from its size."""
        if self.distinct:
            return Promise(self.classes_per_batch, self.group, self.group, self.classes_per_batch)
        return Promise(1, -(-self.batch_size // len(np.unique(self.labels))), self.batch_size)

    def settings(self) -> dict[str, Any]:
        """What determines a plan besides labels, seed and epoch."""
        specific = {key: getattr(self, key) for key in accepted(type(self)) or {} if key not in COMMON}
        return {"batch_size": self.batch_size, "batches": self.batches, **specific}

    def plan(self, epoch: int, memory: np.ndarray | None = None) -> np.ndarray:
        """All batches of an epoch; does not change `epoch` and `step`.

        Args:
            epoch: from 0.
            memory: (images, dim) float32, the last known embedding of each image, for batchings that need it.

        Returns:
            int32 (batches, batch_size): positions in `labels`.
        """
        return self._plan(numpy_stream(self.seed, "batching", epoch), memory).astype(np.int32)

    def set_epoch(self, epoch: int, step: int = 0) -> None:
        """Move to batch `step` of `epoch`."""
        if epoch < 0 or not 0 <= step <= self.batches:
            raise BadInput(f"Epoch {epoch} has no batch {step}; an epoch has {self.batches} batches.")
        self.epoch, self.step = epoch, step

    def is_due(self, epoch: int) -> bool:
        """Whether the memory must be filled before `epoch` is planned."""
        return False

    def fill(self, rows: np.ndarray) -> None:
        """Store an embedding of every image."""

    @property
    def memory_age(self) -> float | None:
        """Mean number of steps since the rows of the memory were written; None without a memory."""
        return None

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Called after each step. Ignored by batchings that use only labels."""

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the current epoch from `step`, each a list of positions in `labels`, then advance."""
        epoch, first = self.epoch, self.step
        for number, batch in enumerate(self.plan(epoch)[first:], first):
            self.step = number + 1
            yield batch.tolist()
        self.epoch, self.step = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """`step` counts batches returned so far. A prefetching loader is ahead of training; then use `set_epoch`."""
        dense = np.unique(self.labels, return_inverse=True)[1].astype(np.int64)  # the same if classes are renamed
        labels = hashlib.blake2b(dense.tobytes(), digest_size=16).hexdigest()
        position = {"epoch": self.epoch, "step": self.step}
        return {**position, "seed": self.seed, "settings": self.settings(), "labels": labels}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`. Refused if labels, seed or settings differ: the batches would differ."""
        present = self.state_dict()
        for key in ("labels", "seed", "settings"):
            if state[key] != present[key]:
                raise BadInput(f"The state is of another batching: its {key} is {state[key]}, not {present[key]}.")
        self.set_epoch(int(state["epoch"]), int(state["step"]))
