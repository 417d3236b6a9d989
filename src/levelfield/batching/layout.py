"""A batch layout that fits the data: the requested one if possible, else the largest that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.errors import BadInput, BadSpecification

LARGEST = 1_000_000  # images of a batch


@dataclass(frozen=True)
class Layout:
    """`classes` x `per_class` images, or `classes` images at random (per_class 0).

    `change` is a sentence on what differs from the request (empty: nothing).

    >>> classes, per_class = Layout.parse("25x4")
    >>> str(Layout.parse("100")), Layout.parse("100").batching
    ('100', 'random')
    """

    classes: int
    per_class: int
    change: str = ""

    @classmethod
    def parse(cls, text: str) -> Layout:
        match = re.fullmatch(r"\s*([0-9]{1,7})\s*(?:[x*]\s*([0-9]{1,7}))?\s*", text)
        layout = cls(int(match[1]), int(match[2] or 0)) if match else cls(0, 0)
        if not 2 <= layout.batch_size <= LARGEST or (match and match[2] and not layout.per_class):
            raise BadSpecification(
                f"'{text}' is not a batch: write classes x images per class, e.g. 25x4, or a number "
                f"(of at most {LARGEST:,} images)."
            )
        return layout

    @property
    def batch_size(self) -> int:
        return self.classes * max(1, self.per_class)

    @property
    def batching(self) -> str:
        """The batching that makes such batches."""
        return "spc" if self.per_class else "random"

    @property
    def settings(self) -> dict[str, int]:
        """Settings of that batching besides the batch size."""
        return {"samples_per_class": self.per_class} if self.per_class else {}

    def __iter__(self) -> Iterator[int]:
        return iter((self.classes, self.per_class))

    def __str__(self) -> str:
        return f"{self.classes}x{self.per_class}" if self.per_class else str(self.classes)


def fit_batch(labels: Sequence[int] | np.ndarray, classes: int = 25, per_class: int = 4) -> Layout:
    """The largest layout up to classes x per_class in which half of the classes need not repeat an image.

    `labels` are those of the training images.

    >>> print(fit_batch(np.repeat(np.arange(10), 8)).change)
    The batch is 10x4 instead of 25x4: there are 10 training classes.
    """
    _, sizes = np.unique(np.asarray(labels), return_counts=True)
    if len(sizes) < 2 or sizes.max() < 2:
        raise BadInput(
            f"There are {len(sizes)} training classes, the largest with {sizes.max(initial=0)} images; training "
            "needs at least two classes, one of them with two images."
        )
    reasons = []
    if len(sizes) < classes:
        reasons.append(f"there are {len(sizes)} training classes")
    usual = int(np.sort(sizes)[len(sizes) // 2])
    fitted = max(min(per_class, usual), min(per_class, 2))
    if fitted < per_class:
        reasons.append(f"a typical class has {usual} image{'s' if usual > 1 else ''}")
    count = min(classes, len(sizes))
    if count * fitted > sizes.sum():
        count = int(sizes.sum()) // fitted
        if count < 2:
            raise BadInput(f"{sizes.sum()} training images are too few for a batch of two classes.")
        reasons.append(f"there are {sizes.sum()} training images")
    change = f"The batch is {count}x{fitted} instead of {classes}x{per_class}: {', '.join(reasons)}." if reasons else ""
    return Layout(count, fitted, change)
