"""n images of each of batch_size / n classes: SPC-n and pairs, dealt from decks; m per class, drawn for each batch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import deal, draw
from levelfield.batching._groups import Groups, Small
from levelfield.batching._registry import register
from levelfield.errors import BadSpecification
from levelfield.settings import Count, Share


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
