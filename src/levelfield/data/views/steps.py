"""The steps of a view. Each is a pure function of (picture, stream, interpolation) and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from levelfield.data.views import resizing
from levelfield.data.views.basic import random_crop

if TYPE_CHECKING:
    import torch

Pair = tuple[float, float]
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of `resized_crop`, as in torchvision
_TRIES = 10  # attempts to draw a rectangle, as in torchvision


def resize(
    picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int | Sequence[int]
) -> Image.Image:
    """Resize the shorter side to `size`, or both sides to [height, width]."""
    return resizing.resized(picture, size if isinstance(size, int) else (size[0], size[1]), interpolation)


def centre(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """The middle square."""
    return resizing.centre(picture, size)


def crop(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """Crop a random square."""
    top, left = (int(stream.integers(side - size + 1)) for side in (picture.height, picture.width))
    return picture.crop((left, top, left + size, top + size))


def resized_crop(
    picture: Image.Image,
    stream: np.random.Generator,
    interpolation: str,
    /,
    *,
    size: int,
    area: Pair = AREA,
    ratio: Pair = RATIO,
) -> Image.Image:
    """Crop a rectangle with a random share of the area and a random aspect ratio, and resize it to a square."""
    return random_crop(picture, size, interpolation, area=area, ratio=ratio, stream=stream)


def flip(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, p: float = 0.5) -> Image.Image:
    """Flip horizontally with probability `p`."""
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if stream.random() < p else picture


def erase(
    tensor: torch.Tensor,
    stream: np.random.Generator,
    /,
    *,
    p: float = 0.5,
    area: Pair = (0.02, 0.4),
    ratio: Pair = (0.3, 1 / 0.3),
    fill: tuple[float, float, float] = (0.4914, 0.4822, 0.4465),
) -> torch.Tensor:
    """With probability `p` fill a rectangle of the normalised image with a colour (Zhong et al. 2020; their code).

    >>> import torch
    >>> erased = erase(torch.ones(3, 64, 64), np.random.default_rng(0), p=1.0)
    >>> 0.02 < float((erased != 1).float().mean()) < 0.4
    True
    """
    happens = stream.random() < p
    height, width = tensor.shape[1:]
    areas = height * width * stream.uniform(area[0], area[1], size=_TRIES)
    ratios = stream.uniform(ratio[0], ratio[1], size=_TRIES)
    heights, widths = np.rint(np.sqrt(areas * ratios)).astype(int), np.rint(np.sqrt(areas / ratios)).astype(int)
    fits = np.flatnonzero((heights < height) & (widths < width) & (heights > 0) & (widths > 0))
    if not happens or not len(fits):
        return tensor
    tall, wide = int(heights[fits[0]]), int(widths[fits[0]])
    top, left = int(stream.integers(height - tall + 1)), int(stream.integers(width - wide + 1))
    result = tensor.clone()
    result[:, top : top + tall, left : left + wide] = result.new_tensor(fill)[:, None, None]
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
