"""Balanced: p images of each of n distinct classes."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from levelfield.batching._base import Batching, Common, Labels, Promise
from levelfield.batching._decks import draw
from levelfield.batching._groups import SMALL, Groups
from levelfield.batching._registry import register
from levelfield.errors import BadInput, BadSpecification


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
    (seidenschwarz2021 on CUB); samples_per_class follows from it.
    small: as for `spc`; `refill` only with `draw`.

    >>> batches = Balanced(np.repeat(np.arange(3), 4), batch_size=4, samples_per_class=2, mode="cover")
    >>> sorted(batches.plan(0).ravel().tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """

    def __init__(
        self,
        labels: Labels,
        *,
        batch_size: int,
        samples_per_class: int = 4,
        mode: Literal["draw", "cover"] = "draw",
        redraw_shape: bool = False,
        small: str = "repeat",
        **common: Unpack[Common],
    ) -> None:
        self.mode, self.redraw_shape = mode, redraw_shape
        self.samples_per_class, self.small = samples_per_class, small
        self.group = 1 if redraw_shape else samples_per_class
        self._choices = (*SMALL, "refill") if mode == "draw" else SMALL
        groups = Groups.of(labels, 1 if redraw_shape else samples_per_class, small=small, choices=self._choices)
        super().__init__(labels, batch_size=batch_size, **common)
        self._groups = {groups.n: groups}
        if redraw_shape:
            self.shapes = self._possible()
        else:
            self.repeating, self.skipped = groups.repeating, groups.skipped
            self.shapes = [self.batch_size // samples_per_class]
            if small == "refill":
                groups.need_fill(self.batch_size, self.world)
            else:
                groups.need(self.shapes[0], self.batch_size)

    def promise(self) -> Promise:
        if self.small == "refill":
            return Promise(min(self.shapes), super().promise().together, self.batch_size // min(self.shapes))
        fewest, most = min(self.shapes), max(self.shapes)
        return Promise(fewest, self.batch_size // most, self.batch_size // fewest, most)

    def _plan(self, stream: np.random.Generator, memory: np.ndarray | None) -> np.ndarray:
        count = int(stream.choice(self.shapes)) if self.redraw_shape else self.shapes[0]
        groups = self._groups_of(self.batch_size // count)
        if self.mode == "cover":
            return self._covers(groups, count, stream)
        if self.small == "refill":
            worth = np.minimum(groups.sizes, groups.n)
            hands = [_until(worth, stream.permutation(len(groups)), self.batch_size) for _ in range(self.batches)]
            return groups.fill(hands, groups.drawn(np.concatenate(hands), stream), self.batch_size)
        classes = draw(np.full(self.batches, len(groups)), count, stream)
        return groups.drawn(classes.ravel(), stream).reshape(self.batches, self.batch_size)

    def _covers(self, groups: Groups, count: int, stream: np.random.Generator) -> np.ndarray:
        passes: list[np.ndarray] = []
        missing = self.batches
        while missing:
            classes = cover(-(-groups.sizes // groups.n), count, stream)[:missing]
            passes.append(groups.dealt(classes.ravel(), stream).reshape(len(classes), self.batch_size))
            missing -= len(classes)
        return np.concatenate(passes)

    def _groups_of(self, n: int) -> Groups:
        if n not in self._groups:
            self._groups[n] = Groups.of(self.labels, n, small=self.small, choices=self._choices)
        return self._groups[n]

    def _possible(self) -> list[int]:
        """Numbers of classes that divide the batch size and are available in the data."""
        if self.world > 1:
            raise BadSpecification(
                "redraw_shape changes the groups from epoch to epoch, so several processes cannot "
                "always share a batch in whole groups: use one process or a fixed shape."
            )
        if self.small == "refill":
            raise BadSpecification("redraw_shape cannot be combined with small='refill': choose repeat, skip or error.")
        size = self.batch_size
        sizes = np.unique(self.labels, return_counts=True)[1]
        counts = []
        for count in (count for count in range(2, size // 2 + 1) if size % count == 0):
            enough = sizes >= size // count
            there = enough.sum() if self.small == "skip" else len(sizes) * (enough.all() or self.small == "repeat")
            counts += [count] if there >= count else []
        if not counts:
            raise BadInput(
                f"No divisor of the batch size {size} from 2 to {size // 2} is a number of classes that "
                f"these {len(sizes)} classes can fill: choose another batch size."
            )
        return counts


def cover(chunks: np.ndarray, count: int, stream: np.random.Generator) -> np.ndarray:
    """[batches, count] classes: always those with most chunks left, until fewer than `count` have chunks.

    >>> cover(np.array([1, 3, 2, 2]), 2, np.random.default_rng(0))[0].tolist().count(1)
    1
    """
    left = chunks.astype(np.float64)
    batches = []
    while np.count_nonzero(left) >= count:
        order = left + stream.random(len(left))  # a random fraction breaks ties
        taken = np.argpartition(order, len(left) - count)[len(left) - count :]
        left[taken] -= 1
        batches.append(taken)
    return np.stack(batches)


def _until(worth: np.ndarray, order: np.ndarray, need: int) -> np.ndarray:
    return order[: int(np.searchsorted(np.cumsum(worth[order]), need)) + 1]
