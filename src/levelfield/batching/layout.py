"""A batch layout that fits the data: the requested one if possible, else the largest that fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.batch_layout import Layout
from levelfield.errors import BadInput


def fit_batch(labels: Sequence[int] | np.ndarray, classes: int = 25, per_class: int = 4) -> Layout:
    """The largest layout up to classes x per_class in which at least half of the classes repeat no image.

    `labels`: labels of the training images.

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
