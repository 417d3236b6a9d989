"""The images of each class, and what happens to classes that are too small for a group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelfield.errors import BadInput, unknown

SMALL = ("repeat", "skip", "error")


@dataclass(frozen=True, eq=False)
class Classes:
    """Class c has `sizes[c]` images: `images[starts[c] : starts[c] + sizes[c]]`, positions into the labels.

    small: for classes with fewer than `group` images: `repeat` them (counted in `repeating`), `skip` the class
    (counted in `skipped`), or `error`.

    >>> classes = Classes.of(np.array([7, 3, 7]), group=2, small="skip")
    >>> classes.sizes.tolist(), classes.images[classes.starts[0] :].tolist(), classes.skipped
    ([2], [0, 2], 1)
    """

    sizes: np.ndarray
    starts: np.ndarray
    images: np.ndarray
    repeating: int
    skipped: int

    @classmethod
    def of(cls, labels: np.ndarray, *, group: int, small: str) -> Classes:
        if small not in SMALL:
            raise unknown("treatment of small classes", small, SMALL)
        names, dense, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        too_small = sizes < group
        count = int(too_small.sum())
        if small == "error" and count:
            raise BadInput(f"{count:,} of {len(names):,} classes have fewer than {group} images "
                           f"(first: class {names[too_small][0]} with {sizes[too_small][0]}).")
        used = ~too_small if small == "skip" else np.ones(len(names), dtype=bool)
        return cls(sizes[used], (np.cumsum(sizes) - sizes)[used], np.argsort(dense, kind="stable"),
                   repeating=count if small == "repeat" else 0, skipped=count if small == "skip" else 0)

    def __len__(self) -> int:
        return len(self.sizes)

    def check_enough(self, needed: int, *, batch_size: int, group: int) -> None:
        """Refuse a batch that needs more classes than there are."""
        if len(self) < needed:
            left = f" with at least {group} images" if self.skipped else ""
            raise BadInput(f"A batch of {batch_size} with {group} images per class needs {needed} classes; there are "
                           f"{len(self)}{left}. Choose a smaller batch, at most {len(self)}x{group}.")
