"""Folders of photos, drawn by the test that needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def make_photos(
    folder: Path,
    *,
    classes: int = 6,
    each: int | Sequence[int] = 5,
    side: int = 40,
    name: str = "class{}",
    suffix: str = ".png",
) -> Path:
    """One sub-folder per class; the images of a class share a pattern of 4 x 4 fields."""
    random = np.random.default_rng(0)
    for label, count in enumerate([each] * classes if isinstance(each, int) else each):
        home = folder / name.format(label)
        home.mkdir(parents=True)
        pattern = random.integers(0, 256, size=(4, 4, 3))
        for number in range(count):
            pixels = np.clip(pattern + random.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).resize((side, side)).save(home / f"{number}{suffix}")
    return folder
