"""The number of classes in a batch and of images per class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from levelfield.errors import BadSpecification

LARGEST = 1_000_000  # images per batch


@dataclass(frozen=True)
class Layout:
    """`classes` x `per_class` images, or `classes` images at random (per_class 0).

    `change` is a sentence that describes the difference from the request (empty: none).

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
                f"'{text}' is not a batch: write CLASSESxIMAGES, for example 25x4, or a number "
                f"(at most {LARGEST:,} images)."
            )
        return layout

    @property
    def batch_size(self) -> int:
        return self.classes * max(1, self.per_class)

    @property
    def batching(self) -> str:
        """Name of the batching that gives this layout."""
        return "spc" if self.per_class else "random"

    @property
    def settings(self) -> dict[str, int]:
        """Settings of the batching besides the batch size."""
        return {"samples_per_class": self.per_class} if self.per_class else {}

    def __iter__(self) -> Iterator[int]:
        return iter((self.classes, self.per_class))

    def __str__(self) -> str:
        return f"{self.classes}x{self.per_class}" if self.per_class else str(self.classes)


def nearest_divisor(count: int, wished: int) -> int:
    """The divisor of `count` nearest to `wished`; the smaller of two.

    >>> nearest_divisor(100, 3), nearest_divisor(100, 7)
    (2, 5)
    """
    return min((k for k in range(1, count + 1) if count % k == 0), key=lambda k: abs(k - wished))
