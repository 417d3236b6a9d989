"""m images per class, as sampled in A Metric Learning Reality Check."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Promise
from levelfield.batching._decks import draw
from levelfield.batching._groups import Groups, Labels, Small
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import Count


@register("m_per_class", "m images per class, distinct classes, redrawn for each batch; configurable epoch length")
class MPerClass(Batching):
    """batch_size / m distinct classes drawn for each batch, m images each.

    batch_size: None uses all classes in every batch, m images of each.
    samples_per_class: m; the default 4 is that of Musgrave et al. 2020 (8 classes, batch 32).
    length: maximum number of images in an epoch, rounded down to whole batches (at least one pass if batch_size is
    None). By default an epoch is as long as for other batchings; the default of pytorch-metric-learning is 100,000.
    small: for classes with fewer than m images: `replace` (m draws with replacement), or as for `spc`.

    >>> len(MPerClass(np.repeat(np.arange(10), 4), batch_size=12, samples_per_class=4, length=40))
    3
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: Count | None = None,
        samples_per_class: Count = 4,
        length: Count | None = None,
        small: Literal[Small, "replace"] = "replace",
        **common: Unpack[Common],
    ) -> None:
        self._groups = Groups.of(labels, samples_per_class, small=small)
        self.group = self._groups.n
        size = batch_size or self.group * len(self._groups)
        if length is not None and common.get("batches_per_epoch") is not None:
            raise BadSpecification("length and batches_per_epoch both set the epoch length: give one of them.")
        if length is not None and batch_size is not None and length < size:
            raise BadSpecification(f"An epoch of length {length} is shorter than one batch of {size}.")
        if common.get("batches_per_epoch") is None and (length is not None or batch_size is None):
            common["batches_per_epoch"] = max(1, (length or len(labels)) // max(1, size))
        super().__init__(labels, batch_size=size, **common)
        self._groups.need(self.classes_per_batch, self.batch_size)

    def promise(self) -> Promise:
        return Promise.of_groups(self.classes_per_batch, self.group)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        classes = draw(np.full(self.batches, len(self._groups)), self.classes_per_batch, stream)
        return self._groups.drawn(classes.ravel(), stream).reshape(self.batches, self.batch_size)
