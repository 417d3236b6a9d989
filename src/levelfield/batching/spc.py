"""SPC-n: n images of each of batch_size / n classes."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Labels, Promise
from levelfield.batching._decks import deal, deal_until
from levelfield.batching._groups import SMALL, Groups
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification


@register("spc", "n images per class, dealt from decks: every class equally often, no image repeated")
class SamplesPerClass(Batching):
    """Classes are dealt from one deck, the images of each class from its own deck; decks are new in every epoch.

    A batch repeats no class, and no image (unless its class has fewer than n). Uses of classes differ by at most 1.
    Coverage of a class with m images and u uses: min(1, u * n / m).

    samples_per_class: n; the default 2 is that of Roth et al. 2020.
    small: for classes with fewer than n images: `repeat` them (counted in `repeating`), `skip` the class (counted in
    `skipped`), `refill` (use all its images, then more classes until the batch is full), or `error`.
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
        samples_per_class: int = 2,
        small: str = "repeat",
        replace: bool = False,
        **common: Unpack[Common],
    ) -> None:
        self._groups = Groups.of(labels, samples_per_class, small=small, choices=(*SMALL, "refill"))
        self.group = self._groups.n
        self.replace = replace
        super().__init__(labels, batch_size=batch_size, **common)
        self.repeating, self.skipped = self._groups.repeating, self._groups.skipped
        if small == "refill" and replace:
            raise BadSpecification(
                "small='refill' fills a batch with other classes, and replace=True lets classes repeat: "
                "choose one of the two."
            )
        if small == "refill":
            self._groups.need_fill(self.batch_size, self.world)
        else:
            self._groups.need(1 if replace else self.classes_per_batch, self.batch_size)

    @property
    def classes_per_batch(self) -> int:
        return self.batch_size // self.group

    def promise(self) -> Promise:
        if self._groups.small == "refill" and self._groups.few:
            return Promise(self.classes_per_batch, super().promise().together, self.group)
        if self.replace:
            return Promise(1, self.group, self.batch_size, self.classes_per_batch)
        return Promise.of_groups(self.classes_per_batch, self.group)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        groups, count = self._groups, self.classes_per_batch
        if self.replace:
            classes = stream.integers(len(groups), size=self.batches * count)
            cards = stream.integers(groups.sizes[classes, None], size=(len(classes), self.group))
            return groups.at(classes, cards).reshape(self.batches, self.batch_size)
        if groups.small == "refill":
            worth = np.minimum(groups.sizes, self.group)
            hands = deal_until(worth, need=self.batch_size, hands=self.batches, stream=stream)
            return groups.fill(hands, groups.dealt(np.concatenate(hands), stream), self.batch_size)
        classes = deal(len(groups), hand=count, hands=self.batches, stream=stream).ravel()
        return groups.dealt(classes, stream).reshape(self.batches, self.batch_size)
