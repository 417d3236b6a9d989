"""Groups of n images of one class, and the pools from which a batch is chosen by embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from levelfield.batching._decks import deal, deal_many, draw
from levelfield.errors import BadInput

Labels = Sequence[int] | np.ndarray
Small = Literal["repeat", "skip", "error"]  # treatment of classes with fewer images than a group needs


def as_labels(labels: Labels) -> np.ndarray:
    """One integer per image."""
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors on other devices
        raise BadInput(f"Labels must be a non-empty list of integers: {error}.") from error
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise BadInput(f"Labels must be a non-empty list of integers, not {array.dtype} of shape {array.shape}.")
    return array


@dataclass(frozen=True, eq=False)
class Groups:
    """The usable classes, and groups of `n` images of them.

    small: for classes with fewer than n images: `repeat` (all once, then again in a new order), `skip` the class,
    `refill` (use all its images and add more classes), `replace` (draw n with replacement), or `error`.
    """

    n: int
    small: str
    sizes: np.ndarray  # number of images of each class
    starts: np.ndarray  # where a class begins in `images`
    images: np.ndarray  # positions, class by class
    of_image: np.ndarray  # index of each image's class; -1 in skipped classes
    few: int  # classes with fewer than n images

    @classmethod
    def of(cls, labels: Labels, n: int, *, small: str = "repeat") -> Groups:
        names, dense, sizes = np.unique(as_labels(labels), return_inverse=True, return_counts=True)
        too_small = sizes < n
        if small == "error" and too_small.any():
            raise BadInput(
                f"{int(too_small.sum()):,} of {len(names):,} classes have fewer than {n} images (first: "
                f"class {names[too_small][0]} with {sizes[too_small][0]})."
            )
        used = ~too_small if small == "skip" else np.ones(len(names), dtype=bool)
        starts = np.cumsum(sizes) - sizes
        images, of_image = np.argsort(dense, kind="stable"), np.where(used, np.cumsum(used) - 1, -1)[dense]
        return cls(n, small, sizes[used], starts[used], images, of_image, int(too_small.sum()))

    def __len__(self) -> int:
        return len(self.sizes)

    def need(self, classes: int, size: int, what: str = "A batch", remedy: str = "a smaller batch") -> None:
        """Refuse a batch, or an episode of one, of `size` images that needs more classes than there are."""
        if len(self) < classes:
            usable = f"{len(self)} with at least {self.n} images" if self.small == "skip" else f"{len(self)}"
            raise BadInput(
                f"{what} of {size} with {self.n} images per class needs {classes} classes; there are {usable}, at most "
                f"{len(self)}x{self.n}. Choose {remedy}."
            )

    def at(self, classes: np.ndarray, cards: np.ndarray) -> np.ndarray:
        """Positions of the images `cards` (groups, n), counted inside each class of `classes` (groups,)."""
        return np.asarray(self.images[self.starts[classes, None] + cards])

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


def draw_groups(groups: Groups, count: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Distinct classes (count,) in ascending order, and images (count, n) of each. If there are fewer classes, these
    and images are dealt from decks, so that no image occurs twice while its class has unused images."""
    if count <= len(groups):
        classes = np.sort(stream.choice(len(groups), size=count, replace=False, shuffle=False))
        return classes, groups.drawn(classes, stream)
    classes = np.sort(deal(len(groups), hand=1, hands=count, stream=stream).ravel())
    return classes, groups.dealt(classes, stream)


def draw_candidates(classes: np.ndarray, *, count: int, hand: int, stream: np.random.Generator) -> np.ndarray:
    """(count, hand) indices of groups, each row with distinct classes; `classes`: classes of the groups, ascending."""
    first = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]])  # where the groups of a class begin
    each = np.diff(np.r_[first, len(classes)])
    chosen = stream.random((count, len(first))).argsort(axis=1)[:, :hand]
    return np.asarray(first[chosen] + (stream.random((count, hand)) * each[chosen]).astype(np.int64))


def draw_images(groups: Groups, *, size: int, least: int, stream: np.random.Generator) -> np.ndarray:
    """Positions of `size` uniformly drawn images, and of one image each of further classes up to `least` classes."""
    allowed = np.flatnonzero(groups.of_image >= 0)
    pool = stream.choice(allowed, size=min(size, len(allowed)), replace=False)
    present = np.unique(groups.of_image[pool])
    if len(present) < least:
        others = stream.permutation(np.setdiff1d(np.arange(len(groups)), present))[: least - len(present)]
        pool = np.concatenate([pool, groups.drawn(others, stream)[:, 0]])
    return pool


def complete(groups: Groups, anchors: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """(batches, anchors * n): each of the (batches, anchors) followed by n - 1 other images of its class."""
    batches, anchors = len(anchors), anchors.ravel()
    hands = groups.drawn(groups.of_image[anchors], stream)
    # swap the anchor with the first card, or replace it: the others are distributed as if drawn without the anchor
    hands[np.arange(len(hands)), (hands == anchors[:, None]).argmax(axis=1)] = hands[:, 0]
    hands[:, 0] = anchors
    return hands.reshape(batches, -1)
