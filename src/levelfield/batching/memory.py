"""The latest embedding of every training image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from levelfield.errors import BadInput


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
