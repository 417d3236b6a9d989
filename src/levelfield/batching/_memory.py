"""Batchings that use embeddings: their memory of embeddings, and one plan per epoch.

Without postponed annotations, as in `_base`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from levelfield.batching._base import Batching
from levelfield.batching._groups import Small
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import Count


class Remembering(Batching):
    """All batches of an epoch are planned at its start from the current memory, so that workers can prefetch.

    Call `fill` when `is_due` is true, and `observe` after each step. The plan of the current epoch is kept, because the
    memory changes during the epoch; `plan(epoch, memory)` is the pure function.

    samples_per_class, small: as in SPC-n.
    refresh: when the memory is updated: the batch's rows after each step (`steps`), all rows by a pass before each
    epoch (`epoch`), or `never` after the first pass.
    """

    needs_memory: ClassVar[bool] = True
    distinct = True
    samples_per_class: Count = 2
    small: Small = "repeat"
    refresh: Literal["steps", "epoch", "never"] = "steps"

    def __post_init__(self) -> None:
        self.group = self.samples_per_class
        super().__post_init__()
        if self.batch_size < 2:
            raise BadSpecification("A batch of 1 has no distances and no covariance: use at least 2 images.")
        self.memory: np.ndarray | None = None  # (images, dim) float32, in the order of the labels
        self.steps = 0
        self._written = np.zeros(len(self.labels), dtype=np.int64)  # step at which each row was written
        self._kept: tuple[int, np.ndarray] | None = None  # an epoch and its plan

    def is_due(self, epoch: int) -> bool:
        planned = self._kept is not None and self._kept[0] == epoch
        return self.memory is None or (self.refresh == "epoch" and not planned)

    def fill(self, rows: np.ndarray) -> None:
        self.memory = _checked(rows, len(self.labels), "image").astype(np.float32)  # a copy of the caller's array
        self._written[:] = self.steps
        self._kept = None

    @property
    def memory_age(self) -> float:
        return float(self.steps - self._written.mean())

    def observe(self, indices: np.ndarray, embeddings: np.ndarray) -> None:
        """Store the embeddings of this step; the last row of a repeated image wins."""
        if self.refresh == "steps":
            rows, memory = _checked(embeddings, len(indices), "image of the batch"), self._filled()
            if rows.shape[1] != memory.shape[1]:
                raise BadInput(
                    f"The memory has rows of {memory.shape[1]} dimensions; the new rows have {rows.shape[1]}."
                )
            memory[indices] = rows
            self._written[indices] = self.steps + 1
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        """The state; arrays are tensors, which a checkpoint can load without executing code."""
        import torch

        state = super().state_dict() | {"steps": self.steps, "written": torch.from_numpy(self._written.copy())}
        if self.memory is not None:
            state["memory"] = torch.from_numpy(self.memory.copy())
        if self._kept is not None:
            state |= {"planned": self._kept[0], "plan": torch.from_numpy(self._kept[1].copy())}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.steps, self._written = int(state["steps"]), state["written"].numpy().copy()
        self.memory = state["memory"].numpy().copy() if "memory" in state else None
        self._kept = (int(state["planned"]), state["plan"].numpy().copy()) if "plan" in state else None

    def _filled(self) -> np.ndarray:
        if self.memory is None:
            raise BadInput(
                f"{type(self).__name__} plans from embeddings, but its memory is empty: `fill` it with a row for "
                "every image first."
            )
        return self.memory

    def plan(self, epoch: int, memory: np.ndarray | None = None) -> np.ndarray:
        if memory is not None:
            return super().plan(epoch, _checked(memory, len(self.labels), "image"))
        if self._kept is None or self._kept[0] != epoch:
            self._kept = epoch, super().plan(epoch, self._filled())
        return self._kept[1]


def _checked(rows: np.ndarray, count: int, what: str) -> np.ndarray:
    rows = np.asarray(rows)
    if rows.ndim != 2 or len(rows) != count or rows.shape[1] == 0:
        raise BadInput(f"One embedding per {what} is needed: expected shape ({count}, dim), got {rows.shape}.")
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise BadInput(f"The embedding of {what} {int(np.argmin(finite))} contains NaN or infinity.")
    return rows
