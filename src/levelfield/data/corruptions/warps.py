"""Warps: geometric transformations with bilinear sampling."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from levelfield.data.corruptions._registry import Span, drawn, register


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
