"""Groups of n images of one class, and the treatment of smaller classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.batching.base import Labels, as_labels
from levelfield.batching.dealing import deal_many
from levelfield.batching.drawing import draw
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
        place = np.arange(len(batch)) - np.searchsorted(batch, batch)
        batches: np.ndarray = images[place < batch_size].reshape(len(hands), batch_size)
        return batches
