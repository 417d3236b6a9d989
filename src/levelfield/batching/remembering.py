"""Base of batchings that use embeddings: groups of n images, a memory, and one plan per epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Unpack

import numpy as np

from levelfield.batching.base import Batching, Common, Labels
from levelfield.batching.groups import Groups
from levelfield.batching.memory import Memory, checked
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import Natural

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

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "samples_per_class": self.group,
            "small": self._groups.small,
            "refresh": self.refresh,
            "project": self.project,
        }

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
