"""Quality: blur and JPEG compression."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from levelfield.data.corruptions._registry import Span, drawn, drawn_whole, register


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
    kernel: np.ndarray = weights / weights.sum()
    return kernel


@register("jpeg")
def jpeg(image: np.ndarray, stream: np.random.Generator, /, *, compression: Span = (80, 95)) -> np.ndarray:
    """JPEG compression at low quality."""
    strength = drawn_whole("compression", compression, stream, least=0, most=100)
    with io.BytesIO() as file:
        Image.fromarray(image).save(file, format="jpeg", quality=jpeg_quality(strength))
        return np.array(Image.open(file, formats=["JPEG"]).convert("RGB"))


def jpeg_quality(compression: float) -> int:
    """Pillow's quality for imgaug's compression of 0 to 100.

    >>> [jpeg_quality(compression) for compression in (80, 88, 95)]
    [22, 14, 7]
    """
    return round(1 + 99 * (1 - compression / 101))
