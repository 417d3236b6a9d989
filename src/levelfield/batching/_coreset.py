"""Base of both coresets: anchors chosen from a pool by their embeddings, each with images of its class."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Unpack

import numpy as np
from annotated_types import Ge

from levelfield.batching._base import Labels, Promise
from levelfield.batching._groups import complete, draw_images
from levelfield.batching._memory import Remembered, Remembering
from levelfield.errors import BadSpecification


class Chosen(Remembered, total=False):
    """Settings of both coresets; a subclass passes them on."""

    pool: int | str
    distinct_classes: bool


class Coreset(Remembering):
    """Anchors chosen by their embeddings, each with n - 1 other images of its class.

    pool: number of candidate images for anchors, redrawn for each batch; or "all".
    distinct_classes: exclude images of chosen classes, so that a batch has as many classes as anchors.

    A subclass implements `_prepare` and `_anchors`, which choose anchors from the embeddings of a pool.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        pool: Annotated[int, Ge(2)] | str = 512,  # Roth et al. 2020, released code
        distinct_classes: bool = True,
        **remembered: Unpack[Remembered],
    ) -> None:
        if isinstance(pool, str) and pool != "all":
            raise BadSpecification(f"'pool' is {pool!r}; it must be a number of images, or all.")
        self.pool, self.distinct_classes = pool, distinct_classes
        super().__init__(labels, batch_size=batch_size, **remembered)
        groups = self._groups
        self._of_image = np.full(len(self.labels), -1)  # index of each image's class
        within = np.arange(groups.sizes.sum()) - np.repeat(np.cumsum(groups.sizes) - groups.sizes, groups.sizes)
        numbers = np.repeat(np.arange(len(groups)), groups.sizes)
        self._of_image[groups.images[groups.starts[numbers] + within]] = numbers
        if self.distinct_classes:
            groups.need(self.classes_per_batch, self.batch_size)
        images = int(groups.sizes.sum())
        self._size = images if isinstance(self.pool, str) else min(self.pool, images)
        if self._size < self.classes_per_batch:
            raise BadSpecification(
                f"'pool' is {pool}: a batch needs {self.classes_per_batch} anchors, but there are only "
                f"{self._size} candidate images."
            )

    def promise(self) -> Promise:
        if self.distinct_classes:
            return Promise.of_groups(self.classes_per_batch, self.group)
        return Promise(1, self.group, self.batch_size, self.classes_per_batch)

    @abstractmethod
    def _prepare(self, rows: np.ndarray) -> Any:
        """Computations needed once per pool, from its float64 rows."""

    @abstractmethod
    def _anchors(self, prepared: Any, classes: np.ndarray | None, stream: np.random.Generator) -> np.ndarray:
        """`classes_per_batch` rows of the pool; with `classes` (rows,), at most one per class."""

    def _batches(self, rows: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        anchors = np.empty((self.batches, self.classes_per_batch), dtype=np.int64)
        for number in range(self.batches):
            if number == 0 or self.pool != "all":
                pool = self._draw(stream)
                prepared = self._prepare(rows[pool].astype(np.float64))
                classes = self._of_image[pool] if self.distinct_classes else None
            anchors[number] = pool[self._anchors(prepared, classes, stream)]
        return complete(self._groups, self._of_image, anchors, stream)

    def _draw(self, stream: np.random.Generator) -> np.ndarray:
        if self.pool == "all":
            return np.flatnonzero(self._of_image >= 0)
        least = self.classes_per_batch if self.distinct_classes else 1
        return draw_images(self._groups, self._of_image, size=self._size, least=least, stream=stream)
