"""The nine corruptions of lim2022 A.3: noise, holes, blur, JPEG compression, and warps with bilinear sampling."""

from __future__ import annotations

import io
import math
from typing import Literal

import numpy as np
from PIL import Image

from levelfield.data.corruptions._registry import Span, drawn, drawn_whole, register
from levelfield.settings import Count, Natural, Share

_GREY = 128


@register("gaussian_noise")
def gaussian_noise(image: np.ndarray, stream: np.random.Generator, /, *, std: Span = (0.0, 25.5)) -> np.ndarray:
    """Gaussian noise with a standard deviation drawn per image; one value per pixel, the same in all channels."""
    spread = drawn("std", std, stream, least=0, most=255)
    return _added(image, np.rint(stream.normal(0.0, spread, image.shape[:2]))[..., None])


@register("salt_and_pepper")
def salt_and_pepper(image: np.ndarray, stream: np.random.Generator, /, *, share: Share = 0.05) -> np.ndarray:
    """Replaces a share of the pixels by grey values from Beta(0.5, 0.5) x 255: mostly near black or white."""
    struck = stream.random(image.shape[:2]) < share
    result = image.copy()
    result[struck] = np.rint(stream.beta(0.5, 0.5, (int(struck.sum()), 1)) * 255).astype(np.uint8)
    return result


@register("uniform_noise")
def uniform_noise(image: np.ndarray, stream: np.random.Generator, /, *, value: Span = (-50, 50)) -> np.ndarray:
    """Adds one integer, drawn per image, to every value."""
    return _added(image, drawn_whole("value", value, stream, least=-255, most=255))


def _added(image: np.ndarray, values: np.ndarray | int) -> np.ndarray:
    return np.asarray(np.clip(image + np.asarray(values, dtype=np.int32), 0, 255).astype(np.uint8))


@register("cutout")
def cutout(
    image: np.ndarray, stream: np.random.Generator, /, *, count: Natural = 2, size: Span = 0.2, squared: bool = False
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
        result[max(top, 0) : max(top + tall, 0), max(left, 0) : max(left + wide, 0)] = _GREY
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


@register("gaussian_blur")
def gaussian_blur(image: np.ndarray, stream: np.random.Generator, /, *, sigma: Span = (1.0, 3.0)) -> np.ndarray:
    """Gaussian blur, truncated as in imgaug; borders are mirrored without repeating the edge pixel."""
    from scipy import ndimage

    kernel = gaussian_kernel(drawn("sigma", sigma, stream, least=1e-3, most=100))
    blurred = image.astype(np.float64)
    for axis in (0, 1):
        # scipy's term for mirroring without the edge pixel
        blurred = ndimage.correlate1d(blurred, kernel, axis=axis, mode="mirror")
    return np.rint(blurred).astype(np.uint8)


def gaussian_kernel(sigma: float) -> np.ndarray:
    """Weights that sum to 1, with imgaug's width: noticeably narrower than three sigmas to each side.

    >>> [len(gaussian_kernel(sigma)) for sigma in (1.0, 2.9, 3.0)]
    [5, 9, 9]
    """
    factor = 3.3 if sigma < 3.0 else 2.9 if sigma < 5.0 else 2.6
    width = int(max(factor * sigma, 5))
    positions = np.arange(width + (width % 2 == 0), dtype=np.float64)
    weights = np.exp(-0.5 * ((positions - positions.mean()) / sigma) ** 2)
    return np.asarray(weights / weights.sum())


@register("jpeg")
def jpeg(image: np.ndarray, stream: np.random.Generator, /, *, compression: Span = (80, 95)) -> np.ndarray:
    """JPEG compression at low quality."""
    strength = drawn_whole("compression", compression, stream, least=0, most=100)
    with io.BytesIO() as file:
        quality = round(1 + 99 * (1 - strength / 101))  # of Pillow, for imgaug's compression of 0 to 100
        Image.fromarray(image).save(file, format="jpeg", quality=quality)
        return np.array(Image.open(file, formats=["JPEG"]).convert("RGB"))


@register("rotation")
def rotation(image: np.ndarray, stream: np.random.Generator, /, *, degrees: Span = (-30.0, 30.0)) -> np.ndarray:
    """Rotation about the centre, clockwise if positive; borders are mirrored, repeating the edge pixel."""
    angle = math.radians(drawn("degrees", degrees, stream, least=-360, most=360))
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width] - np.array([(height - 1) / 2, (width - 1) / 2]).reshape(2, 1, 1)
    rows = y * math.cos(angle) - x * math.sin(angle) + (height - 1) / 2
    columns = y * math.sin(angle) + x * math.cos(angle) + (width - 1) / 2
    return _read(image, rows, columns, mode="reflect")  # scipy's term for mirroring with the edge pixel


@register("perspective")
def perspective(image: np.ndarray, stream: np.random.Generator, /, *, scale: Span = (0.05, 0.15)) -> np.ndarray:
    """Each corner moves inwards by |N(0, scale)| of width and height; their area is stretched to the full image."""
    spread = drawn("scale", scale, stream, least=0, most=1)
    inwards = np.mod(np.abs(stream.normal(0.0, spread, (4, 2))), 1.0)
    height, width = image.shape[:2]
    corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=np.float64)  # (x, y), clockwise from the upper left
    moved = _ordered(np.abs(corners - inwards))
    to = homography(corners * [width, height], moved * [width, height])
    y, x = np.mgrid[:height, :width] + 0.5  # the middle of a pixel
    columns, rows, depth = np.tensordot(to, np.stack([x, y, np.ones_like(x)]), axes=1)
    return _read(image, rows / depth - 0.5, columns / depth - 0.5, mode="nearest")


def homography(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(3, 3): the projective map that takes four points (x, y) to four others.

    >>> square = np.array([[0, 0], [2, 0], [2, 2], [0, 2]])
    >>> homography(square, square + 1).round(9) + 0.0
    array([[1., 0., 1.],
           [0., 1., 1.],
           [0., 0., 1.]])
    """
    equations, values = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        equations += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return np.append(np.linalg.solve(np.array(equations, dtype=np.float64), values), 1.0).reshape(3, 3)


def _ordered(points: np.ndarray) -> np.ndarray:
    """Corners sorted as upper left, upper right, lower right, lower left, in case they moved past each other."""
    points = points[np.argsort(points[:, 0], kind="stable")]
    left, right = (side[np.argsort(side[:, 1], kind="stable")] for side in (points[:2], points[2:]))
    return np.stack([left[0], right[0], right[1], left[1]])


def _read(
    image: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, mode: Literal["reflect", "nearest"]
) -> np.ndarray:
    from scipy import ndimage

    channels = [
        ndimage.map_coordinates(channel, [rows, columns], output=np.float64, order=1, mode=mode)
        for channel in np.moveaxis(image, 2, 0)
    ]
    return np.rint(np.stack(channels, axis=2)).astype(np.uint8)
