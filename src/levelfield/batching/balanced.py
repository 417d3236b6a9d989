"""Balanced: p images of each of n distinct classes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from levelfield.batching._base import Batching, Promise
from levelfield.batching._decks import draw
from levelfield.batching._groups import Groups, Small
from levelfield.batching._registry import register
from levelfield.errors import BadInput, BadSpecification
from levelfield.settings import Count


@register(
    "balanced", "n distinct classes x p images: redrawn for each batch, or arranged so that an epoch covers all images"
)
class Balanced(Batching):
    """batch_size / p distinct classes with p images each.

    samples_per_class: p; the default 4 is that of lim2022 (8 x 4).
    mode: `draw` redraws classes and images for each batch. `cover` splits every class into chunks of p (the last one
    filled with other images of the class) and always takes the classes with most chunks left, with random ties; it
    restarts when too few classes have chunks left, until the epoch is full.
    redraw_shape: in each epoch, draw the number of classes from the divisors of the batch size, from 2 to half of it
    (seidenschwarz2021 on CUB); samples_per_class follows from it. Only with `small` repeat.
    small: as for `spc`; with `draw` also `refill`: use all images of a small class, then more classes until the batch
    is full.

    >>> batches = Balanced(np.repeat(np.arange(3), 4), batch_size=4, samples_per_class=2, mode="cover")
    >>> sorted(batches.plan(0).ravel().tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """

    samples_per_class: Count = 4
    mode: Literal["draw", "cover"] = "draw"
    redraw_shape: bool = False
    small: Literal[Small, "refill"] = "repeat"

    def __post_init__(self) -> None:
        refill = self.small == "refill"
        if (self.redraw_shape and self.small != "repeat") or (self.mode == "cover" and refill):
            raise BadSpecification(
                f"small='{self.small}' cannot be combined with redraw_shape or cover: choose repeat."
            )
        self.group = 1 if self.redraw_shape else self.samples_per_class
        super().__post_init__()
        size, classes = self.batch_size, len(self._groups)
        self.shapes = [self.classes_per_batch]
        if self.redraw_shape:
            self.shapes = [count for count in range(2, min(size // 2, classes) + 1) if size % count == 0]
            if not self.shapes:
                raise BadInput(
                    f"No divisor of the batch size {size} from 2 to {size // 2} is a number of classes that these "
                    f"{classes} classes can fill: choose another batch size."
                )
        elif not refill:
            self._groups.need(self.classes_per_batch, size)
        elif (most := int(np.minimum(self._groups.sizes, self.group).sum())) < size:
            raise BadInput(
                f"A batch of {size} with at most {self.group} images per class cannot be filled: all {classes} classes "
                f"together give {most}. Choose a smaller batch."
            )

    def promise(self) -> Promise:
        if self.small == "refill":
            return Promise(min(self.shapes), super().promise().together, self.batch_size // min(self.shapes))
        fewest, most = min(self.shapes), max(self.shapes)
        return Promise(fewest, self.batch_size // most, self.batch_size // fewest, most)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        count = int(stream.choice(self.shapes)) if self.redraw_shape else self.shapes[0]
        groups = Groups.of(self.labels, self.batch_size // count) if self.redraw_shape else self._groups
        if self.small == "refill":
            return self._refilled(groups, stream)
        if self.mode == "cover":
            passes: list[np.ndarray] = []
            missing = self.batches
            while missing:
                classes = cover(-(-groups.sizes // groups.n), count, stream)[:missing]
                passes.append(groups.dealt(classes.ravel(), stream).reshape(len(classes), self.batch_size))
                missing -= len(classes)
            return np.concatenate(passes)
        classes = draw(np.full(self.batches, len(groups)), count, stream)
        return groups.drawn(classes.ravel(), stream).reshape(self.batches, self.batch_size)

    def _refilled(self, groups: Groups, stream: np.random.Generator) -> np.ndarray:
        """Groups of unequal length: no image is repeated; the excess beyond the batch size is dropped."""
        length = np.minimum(groups.sizes, groups.n)
        hands = []
        for _ in range(self.batches):
            order = stream.permutation(len(groups))
            hands.append(order[: int(np.searchsorted(np.cumsum(length[order]), self.batch_size)) + 1])
        drawn = groups.drawn(np.concatenate(hands), stream)
        batches = np.split(drawn, np.cumsum([len(hand) for hand in hands])[:-1])
        filled = [rows[np.arange(groups.n) < length[hand, None]] for rows, hand in zip(batches, hands, strict=True)]
        return np.stack([images[: self.batch_size] for images in filled])


def cover(chunks: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """[batches, count] classes: always those with most chunks left, until fewer than `count` have chunks."""
    left = chunks.astype(np.float64)
    batches = []
    while np.count_nonzero(left) >= count:
        order = left + stream.random(len(left))  # a random fraction breaks ties
        taken = np.argpartition(order, len(left) - count)[len(left) - count :]
        left[taken] -= 1
        batches.append(taken)
    return np.stack(batches)
