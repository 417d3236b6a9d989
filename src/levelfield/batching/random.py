"""Random images: all of them shuffled and divided into batches, or SPC-R, whose last image completes a pair."""

from __future__ import annotations

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import deal, draw, draw_decks, occurrences
from levelfield.batching._groups import Groups
from levelfield.batching._registry import register
from levelfield.errors import BadInput, BadSpecification


@register("random", "all images shuffled and divided into batches, regardless of class")
class Random(Batching):
    """Coverage: batches * batch_size / images. A batch may have no positive pair.

    >>> Random([0, 0, 1, 1], batch_size=2).plan(0).shape
    (2, 2)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > len(self.labels):
            raise BadSpecification(f"A batch of {self.batch_size} is too large for {len(self.labels)} images.")

    def promise(self) -> Promise:
        return Promise.of_images(np.unique(self.labels, return_counts=True)[1], self.batch_size)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        return deal(len(self.labels), hand=self.batch_size, hands=self.batches, stream=stream)


@register("spc_r", "random images plus one from a class already in the batch: at least one positive pair")
class RandomWithPair(Batching):
    """batch_size - 1 images drawn at random for each batch, and one from the class of one of them.

    Each draw takes a random class, then one of its images not yet in the batch (roth2020).

    replace: draw with replacement, as the released code of roth2020 does: the last image may be its own partner.

    Without replacement, the last image is a new image of the class of a random member. If no member's class has another
    image: any other image if the batch already has a pair; otherwise the last two images are of one class with two.

    >>> batches = RandomWithPair([0, 1, 2, 3, 4, 4], batch_size=3)
    >>> sorted(batches.labels[batches.plan(0)][0].tolist())[-2:]  # no other class has two
    [4, 4]
    """

    replace: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size < 2:
            raise BadSpecification("A batch of 1 has no pair: batching 'spc_r' needs a batch_size of 2 or more.")
        if self._groups.sizes.max() < 2:
            raise BadInput("Batching 'spc_r' needs a class with at least 2 images. Use batching 'random'.")
        if self.batch_size > len(self.labels) and not self.replace:
            raise BadSpecification(
                f"A batch of {self.batch_size} is too large for {len(self.labels)} images without replace=True."
            )

    def promise(self) -> Promise:
        if self.replace:
            return super().promise()  # the last image may be its own partner
        classes, together, most, _ = Promise.of_images(self._groups.sizes, self.batch_size)
        return Promise(classes, max(2, together), most, min(self.batch_size - 1, len(self._groups)))

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        groups = self._groups
        if self.replace:
            free = stream.integers(len(groups), size=(self.batches, self.batch_size - 1))
            member = stream.integers(self.batch_size - 1, size=(self.batches, 1))
            classes = np.concatenate([free, np.take_along_axis(free, member, axis=1)], axis=1)
            cards = stream.integers(groups.sizes[classes.ravel(), None])
            return groups.at(classes.ravel(), cards).reshape(classes.shape)
        free = draw_decks(groups.sizes, self.batches, self.batch_size - 1, stream)
        return _images(with_pair(free, groups.sizes, stream), groups, stream)


def with_pair(free: np.ndarray, sizes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Classes of each batch including the last image, so that a class occurs twice. free: [batches, b - 1] classes."""
    keys = free + np.arange(len(free))[:, None] * len(sizes)
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    used = counts[which].reshape(free.shape)
    partner = np.where(used < sizes[free], stream.random(free.shape), -1.0)  # members whose class has another image
    last = np.take_along_axis(free, partner.argmax(1)[:, None], axis=1)
    classes = np.concatenate([free, last], axis=1)
    for row in np.flatnonzero(partner.max(1) < 0):  # all images used: only with tiny classes
        left = sizes - np.bincount(free[row], minlength=len(sizes))
        if used[row].max() > 1:
            classes[row, -1] = stream.choice(np.repeat(np.arange(len(sizes)), left))
        else:
            classes[row, -2:] = stream.choice(np.flatnonzero(left > 1))
    return classes


def _images(classes: np.ndarray, groups: Groups, stream: np.random.Generator) -> np.ndarray:
    """Distinct images of the `classes` (batches, b) of each batch."""
    keys = (classes + np.arange(len(classes))[:, None] * len(groups)).ravel()
    present, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    decks = draw(groups.sizes[present % len(groups)], int(counts.max()), stream)
    cards = decks[which.ravel(), occurrences(keys)]
    return groups.at(classes.ravel(), cards[:, None]).reshape(classes.shape)
