"""SPC-n: n images of each of batch_size / n classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from levelfield.batching._registry import register
from levelfield.batching.base import Batching
from levelfield.batching.classes import Classes
from levelfield.batching.dealing import deal, deal_many
from levelfield.errors import BadSpecification


@register("spc", "n images of each class in the batch, dealt from decks: classes equally often, no image twice")
class SamplesPerClass(Batching):
    """Classes from one deck, the images of each class from a deck of its own; decks are new in every epoch.

    In a batch no class comes twice, and no image (unless its class has fewer than n). Uses of classes differ by at
    most 1. Coverage of a class with m images and u uses: min(1, u * n / m).

    samples_per_class: n; the default 2 is that of Roth et al. 2020.
    small: for classes with fewer than n images: `repeat` them (counted in `repeating`), `skip` the class (counted in
    `skipped`), or `error`.
    replace: draw classes and images independently, as the released code of Roth et al. does: a class may come twice,
    and an image may be its own positive.

    >>> batches = SamplesPerClass([0, 0, 0, 1, 1, 2, 2, 2], batch_size=4, samples_per_class=2)
    >>> batches.labels[batches.plan(0)].reshape(-1, 2, 2).std(axis=2).tolist()  # pairs of one class
    [[0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        *,
        batch_size: int,
        samples_per_class: int = 2,
        small: str = "repeat",
        replace: bool = False,
        seed: int = 0,
        batches_per_epoch: int | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if samples_per_class < 1:
            raise BadSpecification(f"samples_per_class must be at least 1, not {samples_per_class}.")
        self.group = int(samples_per_class)
        self.small = small
        self.replace = replace
        super().__init__(labels, batch_size=batch_size, seed=seed, batches_per_epoch=batches_per_epoch, rank=rank,
                         world=world)
        self._classes = Classes.of(self.labels, group=self.group, small=small)
        self.repeating, self.skipped = self._classes.repeating, self._classes.skipped
        self._classes.check_enough(1 if replace else self.classes_per_batch, batch_size=batch_size, group=self.group)

    @property
    def classes_per_batch(self) -> int:
        return self.batch_size // self.group

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "samples_per_class": self.group, "small": self.small,
                "replace": self.replace}

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        sizes, starts, of_class = self._classes.sizes, self._classes.starts, self._classes.images
        if self.replace:
            drawn = stream.integers(len(sizes), size=(self.batches * self.classes_per_batch, 1))
            images = stream.integers(sizes[drawn], size=(len(drawn), self.group))
            return of_class[starts[drawn] + images].reshape(self.batches, self.batch_size)
        classes = deal(len(sizes), hand=self.classes_per_batch, hands=self.batches, stream=stream).ravel()
        uses = np.bincount(classes, minlength=len(sizes))
        cards = deal_many(sizes, uses, hand=self.group, stream=stream)  # class by class
        by_class = np.argsort(classes, kind="stable")
        groups = np.empty_like(cards)
        groups[by_class] = of_class[starts[classes[by_class], None] + cards]
        return groups.reshape(self.batches, self.batch_size)
