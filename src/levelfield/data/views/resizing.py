"""Resize and crop with Pillow alone: always antialiased, and bit-identical on any number of threads."""

from __future__ import annotations

import math

from PIL import Image

FILTERS = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
}
_SPARE = 2.0  # as in Pillow's thumbnails (`reducing_gap`): almost the result of decoding in full


def decoded_side(side: float) -> int:
    """Pixels per side that a JPEG is decoded with at least, for a view that resizes the shorter side to `side`."""
    return math.ceil(_SPARE * side)


def resized(image: Image.Image, size: int | tuple[int, int], interpolation: str) -> Image.Image:
    """The shorter side becomes `size`, or both sides become (height, width)."""
    sides = _sides(image, size) if isinstance(size, int) else (size[1], size[0])
    return image if sides == image.size else image.resize(sides, FILTERS[interpolation])


def centre(image: Image.Image, size: int) -> Image.Image:
    """The middle square."""
    left, top = (round((length - size) / 2) for length in image.size)
    return image.crop((left, top, left + size, top + size))


def resized_centre(image: Image.Image, side: int, size: int, interpolation: str) -> Image.Image:
    """`centre(resized(image, side), size)` up to rounding; the pixels outside of the square are not computed."""
    sides = _sides(image, side)
    if interpolation == "nearest":  # rounding could choose another pixel
        return centre(resized(image, side, interpolation), size)
    starts = [round((length - size) / 2) for length in sides]
    scales = [before / after for before, after in zip(image.size, sides, strict=True)]
    corner = [start * scale for start, scale in zip(starts, scales, strict=True)]
    opposite = [
        min((start + size) * scale, length) for start, scale, length in zip(starts, scales, image.size, strict=True)
    ]
    return image.resize((size, size), FILTERS[interpolation], box=(corner[0], corner[1], opposite[0], opposite[1]))


def _sides(image: Image.Image, size: int) -> tuple[int, int]:
    """Width and height once the shorter side has `size` pixels."""
    longer = int(size * max(image.size) / min(image.size))
    return (size, longer) if image.width <= image.height else (longer, size)
