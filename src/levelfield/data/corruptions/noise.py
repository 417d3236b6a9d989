"""Noise: added values and replaced values."""

from __future__ import annotations

import numpy as np

from levelfield.data.corruptions._registry import Span, drawn, drawn_whole, register
from levelfield.settings import Share


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
    noisy: np.ndarray = np.clip(image + np.asarray(values, dtype=np.int32), 0, 255).astype(np.uint8)
    return noisy
