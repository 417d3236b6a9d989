"""Choose the best of a few candidate batches: shared by FRD and DDM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np
from annotated_types import Ge

from levelfield.batching._base import Labels, Promise
from levelfield.batching._groups import draw_candidates, draw_groups
from levelfield.batching._memory import Remembered, Remembering
from levelfield.errors import BadSpecification
from levelfield.settings import Count

Scorer = Callable[[np.ndarray], np.ndarray]
"""Scores (candidates,) of (candidates, batch_size) rows of a pool; the lowest is the best."""


class Pooled(Remembered, total=False):
    """Settings of all batchings that choose among candidates; a subclass passes them on."""

    candidates: int
    pool: int
    reference: Literal["pool", "data"]
    shared: bool


class BestOfCandidates(Remembering):
    """Draw a pool of groups, form `candidates` batches of distinct classes from it, and take the one with the lowest
    score.

    candidates: number of candidate batches.
    pool: number of images to form candidates from, redrawn for each batch (at most all images).
    reference: match the `pool` (Roth et al. 2020, released code) or all `data`.
    shared: one pool for all batches of an epoch; faster, but the epoch has no other images.

    A subclass implements `_describe` (the reference, from any rows) and `_scorer`.
    """

    search: ClassVar[Mapping[str, Any]] = {"candidates": [5, 10, 20, 40]}

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        candidates: Count = 10,  # candidates and pool: Roth et al. 2020, released code
        pool: Annotated[int, Ge(2)] = 512,
        reference: Literal["pool", "data"] = "pool",
        shared: bool = False,
        **remembered: Unpack[Remembered],
    ) -> None:
        self.candidates, self.pool, self.reference, self.shared = candidates, pool, reference, shared
        super().__init__(labels, batch_size=batch_size, **remembered)
        self._groups.need(self.classes_per_batch, self.batch_size)
        if self.pool < batch_size:
            raise BadSpecification(f"'pool' is {pool}; it must be at least the batch size {batch_size}.")

    def promise(self) -> Promise:
        return Promise.of_groups(self.classes_per_batch, self.group)

    @abstractmethod
    def _describe(self, rows: np.ndarray) -> Any:
        """The reference that a batch is compared with, computed from float64 rows."""

    @abstractmethod
    def _scorer(self, rows: np.ndarray, reference: Any | None) -> Scorer:
        """Score batches of these float64 rows against `reference`; None: against the rows themselves."""

    def _batches(self, rows: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        reference = self._describe(rows.astype(np.float64)) if self.reference == "data" else None
        groups = max(self.classes_per_batch, min(self.pool, len(self.labels)) // self.group)
        plan = np.empty((self.batches, self.batch_size), dtype=np.int64)
        for number in range(self.batches):
            if number == 0 or not self.shared:
                classes, images = draw_groups(self._groups, groups, stream)
                score = self._scorer(rows[images.ravel()].astype(np.float64), reference)
            hands = draw_candidates(classes, count=self.candidates, hand=self.classes_per_batch, stream=stream)
            positions = (hands[:, :, None] * self.group + np.arange(self.group)).reshape(self.candidates, -1)
            plan[number] = images.ravel()[positions[np.argmin(score(positions))]]
        return plan
