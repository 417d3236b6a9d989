"""The steps of a view. Each is a pure function of (picture, stream, interpolation) and its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from levelfield.data.views.basic import crop_box, functional, mode

if TYPE_CHECKING:
    import torch

Pair = tuple[float, float]
_TRIES = 10  # attempts to draw a rectangle, as in torchvision


def resize(
    picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int | Sequence[int]
) -> Image.Image:
    """Resize the shorter side to `size`, or both sides to [height, width]."""
    side = [size] if isinstance(size, int) else list(size)
    resized: Image.Image = functional().resize(picture, side, mode(interpolation), antialias=True)
    return resized


def centre(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """The middle square."""
    cropped: Image.Image = functional().center_crop(picture, [size])
    return cropped


def crop(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """Crop a random square."""
    top, left = (int(stream.integers(side - size + 1)) for side in (picture.height, picture.width))
    cropped: Image.Image = functional().crop(picture, top, left, size, size)
    return cropped


def resized_crop(
    picture: Image.Image,
    stream: np.random.Generator,
    interpolation: str,
    /,
    *,
    size: int,
    area: Pair = (0.08, 1.0),
    ratio: Pair = (3 / 4, 4 / 3),
) -> Image.Image:
    """Crop a rectangle with a random share of the area and a random aspect ratio, and resize it to a square."""
    box = crop_box(picture.height, picture.width, area=area, ratio=ratio, stream=stream)
    cropped: Image.Image = functional().resized_crop(picture, *box, [size, size], mode(interpolation), antialias=True)
    return cropped


def flip(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, p: float = 0.5) -> Image.Image:
    """Flip horizontally with probability `p`."""
    return functional().horizontal_flip(picture) if stream.random() < p else picture


def erase(
    tensor: torch.Tensor,
    stream: np.random.Generator,
    /,
    *,
    p: float = 0.5,
    area: Pair = (0.02, 0.4),
    ratio: Pair = (0.3, 3.3),
) -> torch.Tensor:
    """With probability `p` set a rectangle of the normalised image to 0, the mean colour (Zhong et al. 2020).

    >>> import torch
    >>> erased = erase(torch.ones(3, 64, 64), np.random.default_rng(0), p=1.0)
    >>> 0.02 < float((erased == 0).float().mean()) < 0.4
    True
    """
    happens = stream.random() < p
    height, width = tensor.shape[1:]
    areas = height * width * stream.uniform(area[0], area[1], size=_TRIES)
    ratios = np.exp(stream.uniform(math.log(ratio[0]), math.log(ratio[1]), size=_TRIES))
    heights, widths = np.rint(np.sqrt(areas * ratios)).astype(int), np.rint(np.sqrt(areas / ratios)).astype(int)
    fits = np.flatnonzero((heights < height) & (widths < width) & (heights > 0) & (widths > 0))
    if not happens or not len(fits):
        return tensor
    tall, wide = int(heights[fits[0]]), int(widths[fits[0]])
    top, left = int(stream.integers(height - tall + 1)), int(stream.integers(width - wide + 1))
    result = tensor.clone()
    result[:, top : top + tall, left : left + wide] = 0
    return result


PICTURE_STEPS: dict[str, Callable[..., Image.Image]] = {
    "resize": resize,
    "centre": centre,
    "crop": crop,
    "resized_crop": resized_crop,
    "flip": flip,
}
STEPS: dict[str, Callable[..., Image.Image | torch.Tensor]] = {**PICTURE_STEPS, "erase": erase}
RANDOM = frozenset({"crop", "resized_crop", "flip", "erase"})
