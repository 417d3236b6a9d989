"""Holes: rectangles that are painted over."""

from __future__ import annotations

import math

import numpy as np

from levelfield.data.corruptions._registry import Span, drawn, register
from levelfield.settings import Count, Natural

GREY = 128


@register("cutout")
def cutout(
    image: np.ndarray,
    stream: np.random.Generator,
    /,
    *,
    count: Natural = 2,
    size: Span = 0.2,
    squared: bool = False,
) -> np.ndarray:
    """Grey rectangles with their centre anywhere in the image, clipped at the border.

    size: share of the image's sides; height and width are drawn independently. squared: one share, of the shorter side.
    """
    height, width = image.shape[:2]
    result = image.copy()
    for _ in range(count):
        if squared:
            tall = wide = round(drawn("size", size, stream, least=0, most=1) * min(height, width))
        else:
            tall, wide = (round(drawn("size", size, stream, least=0, most=1) * side) for side in (height, width))
        top, left = (math.floor(stream.random() * side - cut / 2) for side, cut in ((height, tall), (width, wide)))
        result[max(top, 0) : max(top + tall, 0), max(left, 0) : max(left + wide, 0)] = GREY
    return result


@register("dropout")
def dropout(
    image: np.ndarray,
    stream: np.random.Generator,
    /,
    *,
    share: Span = (0.0, 0.05),
    size: Span = (0.02, 0.25),
    least: Count = 3,
) -> np.ndarray:
    """Coarse black holes: a mask drawn at low resolution and enlarged by nearest neighbour.

    share: of the mask's cells. size: of the mask as a share of each side of the image, at least `least` cells.
    """
    chance = drawn("share", share, stream, least=0, most=1)
    cells = [max(int(drawn("size", size, stream, least=0, most=1) * side), least) for side in image.shape[:2]]
    mask = stream.random(cells) < chance
    rows, columns = (np.arange(side) * count // side for side, count in zip(image.shape[:2], cells, strict=True))
    result = image.copy()
    result[mask[np.ix_(rows, columns)]] = 0
    return result
