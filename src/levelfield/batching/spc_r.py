"""SPC-R: random images, and a last one that completes a pair."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Labels, Promise
from levelfield.batching._decks import draw, draw_decks, occurrences
from levelfield.batching._groups import Groups
from levelfield.batching._registry import register
from levelfield.errors import BadInput, BadSpecification


@register("spc_r", "random images plus one from a class already in the batch: at least one positive pair")
class RandomWithPair(Batching):
    """batch_size - 1 images drawn at random for each batch, and one from the class of one of them.

    uniform: `class` draws a class, then one of its images not yet in the batch (roth2020); `image` draws images.
    replace: draw with replacement, as the released code of roth2020 does: the last image may be its own partner.

    Without replacement, the last image is a new image of the class of a random member. If no member's class has another
    image: any other image if the batch already has a pair; otherwise the last two images are of one class with two.

    >>> batches = RandomWithPair([0, 1, 2, 3, 4, 4], batch_size=3)
    >>> sorted(batches.labels[batches.plan(0)][0].tolist())[-2:]  # no other class has two
    [4, 4]
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        uniform: Literal["class", "image"] = "class",
        replace: bool = False,
        **common: Unpack[Common],
    ) -> None:
        self.uniform, self.replace = uniform, replace
        super().__init__(labels, batch_size=batch_size, **common)
        self._groups = Groups.of(self.labels, 1)
        if self.batch_size < 2:
            raise BadSpecification("A batch of 1 has no pair: batching 'spc_r' needs a batch_size of 2 or more.")
        if self._groups.sizes.max() < 2:
            raise BadInput(
                "Batching 'spc_r' needs a class with at least 2 images, and there is none. Use batching 'random'."
            )
        if self.batch_size > len(self.labels) and not replace:
            raise BadSpecification(
                f"A batch of {self.batch_size} is too large for {len(self.labels)} images. "
                "Choose a smaller batch, or replace=True."
            )

    def promise(self) -> Promise:
        if self.replace:
            return super().promise()  # the last image may be its own partner
        promise = Promise.of_images(self._groups.sizes, self.batch_size)
        return promise._replace(
            together=max(2, promise.together), most_classes=min(self.batch_size - 1, len(self._groups))
        )

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        """Draw classes first: given the classes, the images of each are equally likely in both ways of drawing."""
        groups = self._groups
        if self.replace:
            classes = self._classes_with_replacement(stream)
            cards = stream.integers(groups.sizes[classes.ravel(), None])
            return groups.at(classes.ravel(), cards).reshape(classes.shape)
        if self.uniform == "class":
            free = draw_decks(groups.sizes, self.batches, self.batch_size - 1, stream)
        else:
            images = draw(np.full(self.batches, len(self.labels)), self.batch_size - 1, stream)
            free = np.searchsorted(groups.starts, images, side="right") - 1  # images are numbered class by class
        return _images(with_pair(free, groups.sizes, stream), groups, stream)

    def _classes_with_replacement(self, stream: np.random.Generator) -> np.ndarray:
        shape = (self.batches, self.batch_size - 1)
        if self.uniform == "class":
            free = stream.integers(len(self._groups), size=shape)
        else:
            free = np.searchsorted(self._groups.starts, stream.integers(len(self.labels), size=shape), side="right") - 1
        member = stream.integers(shape[1], size=(self.batches, 1))
        return np.concatenate([free, np.take_along_axis(free, member, axis=1)], axis=1)


def with_pair(free: np.ndarray, sizes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Classes of each batch including the last image, so that a class occurs twice. free: [batches, b - 1] classes.

    >>> with_pair(np.array([[0, 1]]), np.array([1, 2, 3]), np.random.default_rng(0)).tolist()  # 0 has no other image
    [[0, 1, 1]]
    """
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
