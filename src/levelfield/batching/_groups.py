"""Groups of n images of one class, and the pools from which a batch is chosen by embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.batching._base import Labels, as_labels
from levelfield.batching._decks import deal, deal_many, draw
from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.settings import whole

SMALL = ("repeat", "skip", "error")


@dataclass(frozen=True, eq=False)
class Groups:
    """The usable classes, and groups of `n` images of them.

    small: for classes with fewer than n images: `repeat` (all once, then again in a new order), `skip` the class,
    `refill` (use all its images and add more classes, see `fill`), `replace` (draw n with replacement), or `error`.
    """

    n: int
    small: str
    sizes: np.ndarray  # number of images of each class
    starts: np.ndarray  # where a class begins in `images`
    images: np.ndarray  # positions, class by class
    few: int  # classes with fewer than n images

    @classmethod
    def of(cls, labels: Labels, n: int, *, small: str = "repeat", choices: Sequence[str] = SMALL) -> Groups:
        """
        >>> groups = Groups.of(np.array([5, 7, 5, 7, 9]), 2)
        >>> groups.sizes.tolist(), groups.few
        ([2, 2, 1], 1)
        """
        n = whole("samples_per_class", n, least=1)
        if small not in choices:
            raise unknown("treatment of small classes", small, choices)
        names, dense, sizes = np.unique(as_labels(labels), return_inverse=True, return_counts=True)
        too_small = sizes < n
        if small == "error" and too_small.any():
            raise BadInput(
                f"{int(too_small.sum()):,} of {len(names):,} classes have fewer than {n} images (first: "
                f"class {names[too_small][0]} with {sizes[too_small][0]})."
            )
        used = ~too_small if small == "skip" else np.ones(len(names), dtype=bool)
        starts = np.cumsum(sizes) - sizes
        return cls(n, small, sizes[used], starts[used], np.argsort(dense, kind="stable"), int(too_small.sum()))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def repeating(self) -> int:
        return self.few if self.small in ("repeat", "replace") else 0

    @property
    def skipped(self) -> int:
        return self.few if self.small == "skip" else 0

    def need(self, classes: int, batch_size: int) -> None:
        """Refuse a batch that needs more classes than there are."""
        if len(self) < classes:
            left = f" with at least {self.n} images" if self.small == "skip" else ""
            raise BadInput(
                f"A batch of {batch_size} with {self.n} images per class needs {classes} classes; there are "
                f"{len(self)}{left}. Choose a smaller batch, at most {len(self)}x{self.n}."
            )

    def need_fill(self, batch_size: int, world: int) -> None:
        """Refuse a batch that `refill` cannot fill or cannot divide into whole groups."""
        most = int(np.minimum(self.sizes, self.n).sum())
        if most < batch_size:
            raise BadInput(
                f"A batch of {batch_size} with at most {self.n} images per class cannot be filled: all "
                f"{len(self)} classes together give {most}. Choose a smaller batch."
            )
        if world > 1:
            raise BadSpecification(
                "small='refill' makes groups of unequal length, which several processes cannot "
                "share: choose repeat or skip."
            )

    def at(self, classes: np.ndarray, cards: np.ndarray) -> np.ndarray:
        """Positions of the images `cards` (groups, n), counted inside each class of `classes` (groups,)."""
        dealt: np.ndarray = self.images[self.starts[classes, None] + cards]
        return dealt

    def dealt(self, classes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """[groups, n] positions: each class deals from its own deck, so that its images occur equally often."""
        uses = np.bincount(classes, minlength=len(self))
        cards = deal_many(self.sizes, uses, hand=self.n, stream=stream)  # class by class
        by_class = np.argsort(classes, kind="stable")
        groups = np.empty_like(cards)
        groups[by_class] = self.at(classes[by_class], cards)
        return groups

    def drawn(self, classes: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """[groups, n] positions: each group is drawn independently."""
        sizes = self.sizes[classes]
        cards = draw(sizes, self.n, stream)
        small = sizes < self.n
        if small.any() and self.small == "replace":
            cards[small] = stream.integers(sizes[small, None], size=(int(small.sum()), self.n))
        elif small.any():
            ones = np.ones(int(small.sum()), dtype=np.int64)
            cards[small] = deal_many(sizes[small], ones, hand=self.n, stream=stream)
        return self.at(classes, cards)

    def fill(self, hands: Sequence[np.ndarray], groups: np.ndarray, batch_size: int) -> np.ndarray:
        """Batches of groups of unequal length: no image is repeated; the excess beyond `batch_size` is dropped.

        hands: the classes of each batch; groups: [classes of all batches, n], as dealt or drawn.
        """
        classes = np.concatenate(hands)
        length = np.minimum(self.sizes[classes], self.n)
        images = groups[np.arange(self.n) < length[:, None]]
        batch = np.repeat(np.repeat(np.arange(len(hands)), [len(hand) for hand in hands]), length)
        position = np.arange(len(batch)) - np.searchsorted(batch, batch)
        batches: np.ndarray = images[position < batch_size].reshape(len(hands), batch_size)
        return batches


def draw_groups(groups: Groups, count: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Classes (count,) in ascending order, and images (count, n) of each.

    The classes are distinct. If there are fewer than `count`, classes and images are dealt from decks, so that no image
    occurs twice while its class has unused images.

    >>> classes, images = draw_groups(Groups.of(np.array([0, 0, 1, 1, 1, 1]), 2), 3, np.random.default_rng(0))
    >>> len(classes), len(np.unique(images)) >= 4
    (3, True)
    """
    if count <= len(groups):
        classes = np.sort(stream.choice(len(groups), size=count, replace=False, shuffle=False))
        return classes, groups.drawn(classes, stream)
    classes = np.sort(deal(len(groups), hand=1, hands=count, stream=stream).ravel())
    return classes, groups.dealt(classes, stream)


def draw_candidates(classes: np.ndarray, *, count: int, hand: int, stream: np.random.Generator) -> np.ndarray:
    """(count, hand) indices of groups, each row with distinct classes; `classes`: classes of the groups, ascending.

    >>> draw_candidates(np.array([4, 4, 7]), count=5, hand=2, stream=np.random.default_rng(0)).shape
    (5, 2)
    """
    first = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]])  # where the groups of a class begin
    each = np.diff(np.r_[first, len(classes)])
    chosen = stream.random((count, len(first))).argsort(axis=1)[:, :hand]
    drawn: np.ndarray = first[chosen] + (stream.random((count, hand)) * each[chosen]).astype(np.int64)
    return drawn


def draw_images(
    groups: Groups, of_image: np.ndarray, *, size: int, least: int, stream: np.random.Generator
) -> np.ndarray:
    """Positions of `size` uniformly drawn images; if they have fewer than `least` classes, add one image each of
    further classes.

    of_image: index of each image's class, -1 if the class is excluded.
    """
    allowed = np.flatnonzero(of_image >= 0)
    pool = stream.choice(allowed, size=min(size, len(allowed)), replace=False)
    there = np.unique(of_image[pool])
    if len(there) < least:
        others = stream.permutation(np.setdiff1d(np.arange(len(groups)), there))[: least - len(there)]
        pool = np.concatenate([pool, groups.drawn(others, stream)[:, 0]])
    return pool


def complete(groups: Groups, of_image: np.ndarray, anchors: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """(batches, anchors * n): each anchor followed by n - 1 other images of its class.

    anchors: (batches, anchors). An image occurs twice in a batch only if its class has no other image left.

    >>> labels = np.array([0, 0, 1, 1])
    >>> complete(Groups.of(labels, 2), labels, np.array([[1, 2]]), np.random.default_rng(0)).tolist()
    [[1, 0, 2, 3]]
    """
    ordered = np.sort(of_image[anchors], axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        return np.stack([_complete_one(groups, of_image, row, stream) for row in anchors])
    anchors = anchors.ravel()
    hands = groups.drawn(of_image[anchors], stream)
    # swap the anchor with the first card, or replace it: the others are distributed as if drawn without the anchor
    hands[np.arange(len(hands)), (hands == anchors[:, None]).argmax(axis=1)] = hands[:, 0]
    hands[:, 0] = anchors
    return hands.reshape(len(ordered), -1)


def _complete_one(groups: Groups, of_image: np.ndarray, anchors: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """Complete a batch in which a class occurs twice: its anchors share the remaining images."""
    result = np.empty((len(anchors), groups.n), dtype=np.int64)
    result[:, 0] = anchors
    for label in np.unique(of_image[anchors]):
        rows = np.flatnonzero(of_image[anchors] == label)
        images = groups.images[groups.starts[label] : groups.starts[label] + groups.sizes[label]]
        others = stream.permutation(np.setdiff1d(images, anchors[rows]))
        while len(others) < len(rows) * (groups.n - 1):
            others = np.concatenate([others, stream.permutation(images)])
        result[rows, 1:] = others[: len(rows) * (groups.n - 1)].reshape(len(rows), groups.n - 1)
    return result.ravel()
