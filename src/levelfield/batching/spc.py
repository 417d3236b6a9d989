"""SPC-n: n images of each of batch_size / n classes."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Promise
from levelfield.batching._decks import deal
from levelfield.batching._groups import Groups, Labels, Small
from levelfield.batching._registry import register
from levelfield.settings import Count


@register("spc", "n images per class, dealt from decks: every class equally often, no image repeated")
class SamplesPerClass(Batching):
    """Classes are dealt from one deck, the images of each class from its own deck; decks are new in every epoch.

    A batch repeats no class, and no image (unless its class has fewer than n). Uses of classes differ by at most 1.
    Coverage of a class with m images and u uses: min(1, u * n / m).

    samples_per_class: n; the default 2 is that of Roth et al. 2020.
    small: for classes with fewer than n images: `repeat` them (counted in `repeating`), `skip` the class (counted in
    `skipped`), or `error`.
    replace: draw classes and images independently, as the released code of Roth et al. does: a class may occur twice,
    and an image may be its own positive.

    >>> batches = SamplesPerClass([0, 0, 0, 1, 1, 2, 2, 2], batch_size=4, samples_per_class=2)
    >>> batches.labels[batches.plan(0)].reshape(-1, 2, 2).std(axis=2).tolist()  # pairs of one class
    [[0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        samples_per_class: Count = 2,
        small: Small = "repeat",
        replace: bool = False,
        **common: Unpack[Common],
    ) -> None:
        self._groups = Groups.of(labels, samples_per_class, small=small)
        self.group = self._groups.n
        self.replace = replace
        super().__init__(labels, batch_size=batch_size, **common)
        self._groups.need(1 if replace else self.classes_per_batch, self.batch_size)

    def promise(self) -> Promise:
        if self.replace:
            return Promise(1, self.group, self.batch_size, self.classes_per_batch)
        return Promise.of_groups(self.classes_per_batch, self.group)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        groups, count = self._groups, self.classes_per_batch
        if self.replace:
            classes = stream.integers(len(groups), size=self.batches * count)
            cards = stream.integers(groups.sizes[classes, None], size=(len(classes), self.group))
            return groups.at(classes, cards).reshape(self.batches, self.batch_size)
        classes = deal(len(groups), hand=count, hands=self.batches, stream=stream).ravel()
        return groups.dealt(classes, stream).reshape(self.batches, self.batch_size)
