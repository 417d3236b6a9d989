"""Images as callers pass them: paths, PIL images or arrays, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image

from levelfield.data.files.images import as_rgb, read_image
from levelfield.errors import BadInput

Picture: TypeAlias = str | Path | Image.Image | np.ndarray


def listed(images: Picture | Sequence[Picture]) -> list[Picture]:
    """One image or many as a list; an array (images, height, width, 3) is many.

    >>> len(listed("a.png")), len(listed(np.zeros((5, 8, 8, 3), np.uint8)))
    (1, 5)
    """
    if isinstance(images, np.ndarray):
        return list(images) if images.ndim == 4 else [images]
    return [images] if isinstance(images, str | Path | Image.Image) else list(images)


def opened(picture: Picture, *, decoded: int = 0) -> Image.Image:
    """The picture as an upright RGB image. decoded: see `read_image`; images in memory are not reduced."""
    if isinstance(picture, str | Path):
        return read_image(picture, decoded=decoded)
    if isinstance(picture, Image.Image):
        return as_rgb(picture)
    array = np.asarray(picture)
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))):
        raise BadInput(f"An image array must be uint8 (height, width, 3), not {array.dtype} {array.shape}.")
    return as_rgb(Image.fromarray(array[:, :, 0] if array.shape[2:] == (1,) else array))
