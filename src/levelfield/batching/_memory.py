"""Batchings that use embeddings: the memory of embeddings, and one plan per epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Labels
from levelfield.batching._groups import Groups
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import Natural


class Memory:
    """(images, dim) float32 in the order of the data, and for each row the step at which it was written.

    >>> memory = Memory(3)
    >>> memory.fill(np.zeros((3, 2)))
    >>> memory.write(np.array([2, 0, 2]), np.array([[1.0, 0], [2, 0], [3, 0]]))  # the last one wins
    >>> memory.tick()
    >>> memory.rows[:, 0].tolist(), round(memory.mean_age, 2)
    ([2.0, 0.0, 3.0], 0.33)
    """

    def __init__(self, images: int) -> None:
        self.rows = np.empty((0, 0), dtype=np.float32)
        self.steps = 0
        self._written = np.zeros(images, dtype=np.int64)

    @property
    def is_empty(self) -> bool:
        return len(self.rows) == 0

    @property
    def mean_age(self) -> float:
        """Mean number of steps since the rows were written."""
        return float(self.steps - self._written.mean())

    def fill(self, rows: np.ndarray) -> None:
        """Store all rows."""
        self.rows = checked(rows, len(self._written), "image").astype(np.float32)  # a copy of the caller's array
        self._written[:] = self.steps

    def write(self, indices: np.ndarray, rows: np.ndarray) -> None:
        """Store the rows of a step."""
        rows = checked(rows, len(indices), "image of the batch")
        if self.is_empty:
            raise BadInput("The memory of embeddings is empty: `fill` it with a row for every image first.")
        if rows.shape[1] != self.rows.shape[1]:
            raise BadInput(
                f"The memory has rows of {self.rows.shape[1]} dimensions; the new rows have {rows.shape[1]}."
            )
        self.rows[indices] = rows
        self._written[indices] = self.steps + 1

    def tick(self) -> None:
        """Advance by one step: rows not written in it age by one."""
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        """State as tensors, which a checkpoint can load without executing code."""
        import torch

        return {
            "rows": torch.from_numpy(self.rows.copy()),
            "written": torch.from_numpy(self._written.copy()),
            "steps": self.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rows, self._written = state["rows"].numpy().copy(), state["written"].numpy().copy()
        self.steps = int(state["steps"])


def checked(rows: np.ndarray, count: int, what: str) -> np.ndarray:
    """Validate that `rows` has one finite row for each of `count` images.

    >>> checked(np.array([[1.0], [np.nan]]), 2, "image")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadInput: The embedding of image 1 contains NaN or infinity.
    """
    rows = np.asarray(rows)
    if rows.ndim != 2 or len(rows) != count or rows.shape[1] == 0:
        raise BadInput(f"One embedding per {what} is needed: expected shape ({count}, dim), got {rows.shape}.")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise BadInput(f"The embedding of {what} {int(np.argmin(finite))} contains NaN or infinity.")
    return rows


Refresh = Literal["steps", "epoch", "never"]


class Remembered(Common, total=False):
    """Settings of every batching with a memory; a subclass passes them on."""

    samples_per_class: int
    small: str
    refresh: Refresh
    project: int


class Remembering(Batching):
    """All batches of an epoch are planned at its start from the current memory, so that workers can prefetch.

    Call `fill` when `is_due` is true, and `observe` after each step. The plan of the current epoch is kept, because the
    memory changes during the epoch; `plan(epoch, memory)` is the pure function.

    samples_per_class, small: as in SPC-n.
    refresh: when the memory is updated: the batch's rows after each step (`steps`), all rows by a pass before each
    epoch (`epoch`), or `never` after the first pass.
    project: dimensions of a random projection, drawn once per epoch; 0: none.

    A subclass implements `_batches`.
    """

    needs_memory = True

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        samples_per_class: int = 2,
        small: str = "repeat",
        refresh: Refresh = "steps",
        project: Natural = 0,
        **common: Unpack[Common],
    ) -> None:
        self._groups = Groups.of(labels, samples_per_class, small=small)
        self.group = self._groups.n
        self.refresh, self.project = refresh, project
        super().__init__(labels, batch_size=batch_size, **common)
        self.repeating, self.skipped = self._groups.repeating, self._groups.skipped
        if batch_size < 2:
            raise BadSpecification("A batch of 1 has no distances and no covariance: use at least 2 images.")
        self.memory = Memory(len(self.labels))
        self._kept: tuple[int, np.ndarray] | None = None  # an epoch and the plan of all processes

    @property
    def classes_per_batch(self) -> int:
        return self.batch_size // self.group

    @abstractmethod
    def _batches(self, rows: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """[batches, batch_size] positions, given an embedding for each image."""

    def is_due(self, epoch: int) -> bool:
        """Whether the memory must be refilled before `epoch` is planned."""
        planned = self._kept is not None and self._kept[0] == epoch
        return self.memory.is_empty or (self.refresh == "epoch" and not planned)

    def fill(self, rows: np.ndarray) -> None:
        """Store an embedding of every image, from a pass in evaluation mode."""
        self.memory.fill(rows)
        self._kept = None

    @property
    def memory_age(self) -> float:
        return self.memory.mean_age

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Store the embeddings of this step. Several processes gather all indices and embeddings of the batch first."""
        if self.refresh == "steps":
            self.memory.write(indices, embeddings)
        self.memory.tick()

    def state_dict(self) -> dict[str, Any]:
        import torch

        kept = {} if self._kept is None else {"planned": self._kept[0], "plan": torch.from_numpy(self._kept[1].copy())}
        return {**super().state_dict(), "memory": self.memory.state_dict(), **kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.memory.load_state_dict(state["memory"])
        self._kept = (int(state["planned"]), state["plan"].numpy().copy()) if "plan" in state else None

    def _whole(self, epoch: int, memory: np.ndarray | None) -> np.ndarray:
        if memory is not None:
            return super()._whole(epoch, checked(memory, len(self.labels), "image"))
        if self._kept is None or self._kept[0] != epoch:
            if self.memory.is_empty:
                raise BadInput(
                    f"{type(self).__name__} plans from embeddings, but its memory is empty: `fill` it with "
                    "a row for every image first."
                )
            self._kept = epoch, super()._whole(epoch, self.memory.rows)
        return self._kept[1]

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        assert memory is not None  # guaranteed by `_whole`
        if self.project >= memory.shape[1]:
            raise BadSpecification(
                f"'project' is {self.project}; it must be below the {memory.shape[1]} dimensions of the "
                "embedding, or 0."
            )
        if self.project:
            memory = memory @ stream.normal(scale=self.project**-0.5, size=(memory.shape[1], self.project))
        return self._batches(memory, stream)
