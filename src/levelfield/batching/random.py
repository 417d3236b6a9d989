"""All images shuffled and divided into batches."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Promise
from levelfield.batching._decks import deal
from levelfield.batching._groups import Labels
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification


@register("random", "all images shuffled and divided into batches, regardless of class")
class Random(Batching):
    """Coverage: batches * batch_size / images. A batch may have no positive pair.

    >>> Random([0, 0, 1, 1], batch_size=2).plan(0).shape
    (2, 2)
    """

    def __init__(self, labels: Labels, *, batch_size: int, **common: Unpack[Common]) -> None:
        super().__init__(labels, batch_size=batch_size, **common)
        if self.batch_size > len(self.labels):
            raise BadSpecification(f"A batch of {self.batch_size} is too large for {len(self.labels)} images.")

    def promise(self) -> Promise:
        return Promise.of_images(np.unique(self.labels, return_counts=True)[1], self.batch_size)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        return deal(len(self.labels), hand=self.batch_size, hands=self.batches, stream=stream)
