"""A miniature of CUB-200-2011 in the official layout, drawn by the test that needs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

FIRST_TEST_CLASS = 101


def draw_cub(top: Path, *, training: int = 8, test: int = 4, each: int = 4, size: tuple[int, int] = (30, 24)) -> Path:
    """So many classes of either half with `each` photographs; the root. The images of a class share a pattern."""
    root, random = top / "CUB_200_2011", np.random.default_rng(0)
    images, labels, classes = [], [], []
    for number in [*range(1, training + 1), *range(FIRST_TEST_CLASS, FIRST_TEST_CLASS + test)]:
        name = f"{number:03d}.Bird_of_kind_{number}"
        classes.append(f"{number} {name}")
        (root / "images" / name).mkdir(parents=True)
        pattern = random.integers(0, 256, size=(4, 4, 3))
        for k in range(each):
            pixels = np.clip(pattern + random.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).resize(size).save(root / "images" / name / f"Bird_{number}_{k}.jpg")
            images.append(f"{len(images) + 1} {name}/Bird_{number}_{k}.jpg")
            labels.append(f"{len(images)} {number}")
    for file, lines in (("images", images), ("image_class_labels", labels), ("classes", classes)):
        (root / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return root
