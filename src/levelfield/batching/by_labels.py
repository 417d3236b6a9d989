"""Batches by labels alone.

All images shuffled and divided; SPC-R, whose last image completes a pair; n images of each of batch_size / n classes:
SPC-n and pairs, dealt from decks; m per class, drawn for each batch.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import deal, draw, draw_decks, occurrences
from levelfield.batching._groups import Groups, Small
from levelfield.batching._registry import register
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import Count, Share


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

    samples_per_class: Count = 2
    small: Small = "repeat"
    replace: bool = False

    def __post_init__(self) -> None:
        self.group, self.distinct = self.samples_per_class, not self.replace
        super().__post_init__()
        self._groups.need(1, self.batch_size)

    def promise(self) -> Promise:
        if self.replace:
            return Promise(1, self.group, self.batch_size, self.classes_per_batch)
        return super().promise()

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        groups, count = self._groups, self.classes_per_batch
        if self.replace:
            classes = stream.integers(len(groups), size=self.batches * count)
            cards = stream.integers(groups.sizes[classes, None], size=(len(classes), self.group))
            return groups.at(classes, cards).reshape(self.batches, self.batch_size)
        classes = deal(len(groups), hand=count, hands=self.batches, stream=stream).ravel()
        return groups.dealt(classes, stream).reshape(self.batches, self.batch_size)


@register("n_pair", "an anchor and a positive of each of many classes; objectives receive these roles")
class Pairs(Batching):
    """Pairs of distinct classes, dealt as in `spc` with n = 2, with the roles `anchor` and `positive`.

    same_image: probability that the positive is the anchor's own image in another view (0.1 in the released code of
    fehervari2019, for N-pair and angular).
    small: a class with one image: `repeat` it (counted in `repeating`), `skip` the class, or `error`.

    >>> batches = Pairs([0, 0, 1, 1], batch_size=4)
    >>> {role: rows.tolist() for role, rows in batches.roles.items()}
    {'anchor': [0, 2], 'positive': [1, 3]}
    """

    group = 2
    distinct = True
    same_image: Share = 0.0
    small: Small = "repeat"

    @property
    def roles(self) -> dict[str, np.ndarray]:
        rows = np.arange(self.batch_size)
        return {"anchor": rows[::2], "positive": rows[1::2]}

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        classes = deal(len(self._groups), hand=self.classes_per_batch, hands=self.batches, stream=stream).ravel()
        pairs = self._groups.dealt(classes, stream)
        if self.same_image:
            same = stream.random(len(pairs)) < self.same_image
            pairs[same, 1] = pairs[same, 0]
        return pairs.reshape(self.batches, self.batch_size)


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

    distinct = True
    batch_size: Count | None = None  # type: ignore[assignment]
    samples_per_class: Count = 4
    length: Count | None = None
    small: Literal[Small, "replace"] = "replace"

    def __post_init__(self) -> None:
        self.group = self.samples_per_class
        self._groups = Groups.of(self.labels, self.group, small=self.small)
        size = self.batch_size or self.group * len(self._groups)
        if self.length is not None and self.batches_per_epoch is not None:
            raise BadSpecification("length and batches_per_epoch both set the epoch length: give one of them.")
        if self.length is not None and self.batch_size is not None and self.length < size:
            raise BadSpecification(f"An epoch of length {self.length} is shorter than one batch of {size}.")
        if self.batches_per_epoch is None and (self.length is not None or self.batch_size is None):
            self.batches_per_epoch = max(1, (self.length or len(self.labels)) // max(1, size))
        self.batch_size = size
        super().__post_init__()

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        classes = draw(np.full(self.batches, len(self._groups)), self.classes_per_batch, stream)
        return self._groups.drawn(classes.ravel(), stream).reshape(self.batches, -1)
