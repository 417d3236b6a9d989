"""A test view without torch: decoded image to normalised numbers with Pillow and numpy, the bits of the torch view."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from levelfield.data.views.basic import TestView
from levelfield.data.views.named import StepsView
from levelfield.errors import BadInput

STEPS = ("resize", "centre")
_MODES = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
}


def pixels(view: TestView | StepsView, image: Image.Image) -> NDArray[np.float32]:
    """RGB image to float32 (3, side, side), as `view(image)` gives it.

    >>> view = TestView(4, 1.0, (0.5,) * 3, (0.5,) * 3, "bicubic")
    >>> pixels(view, Image.new("RGB", (9, 7), "white"))[:, 0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    return _normalised(_square(view, image), view.mean, view.std)


def check_view(view: TestView | StepsView) -> None:
    """Refuse a view with a step that needs torch or random numbers."""
    strange = [step.name for step in view.steps if step.name not in STEPS] if isinstance(view, StepsView) else []
    if strange:
        raise BadInput(f"The test view has the step '{strange[0]}'; an exported model can have {' and '.join(STEPS)}.")


def _square(view: TestView | StepsView, image: Image.Image) -> Image.Image:
    if isinstance(view, TestView):
        side = max(view.image, round(view.image / view.crop))
        return _centre(_resized(image, side, view.interpolation), view.image)
    for step in view.steps:
        size = dict(step.settings)["size"]
        image = _centre(image, size) if step.name == "centre" else _resized(image, size, view.interpolation)
    return image


def _resized(image: Image.Image, size: int | tuple[int, int], interpolation: str) -> Image.Image:
    """The shorter side becomes `size`, or both sides become (height, width)."""
    width, height = image.size
    if isinstance(size, int):
        long = int(size * max(width, height) / min(width, height))
        wanted = (size, long) if width <= height else (long, size)
    else:
        wanted = (size[1], size[0])
    return image if wanted == image.size else image.resize(wanted, resample=_MODES[interpolation])


def _centre(image: Image.Image, side: int) -> Image.Image:
    left, top = (round((length - side) / 2) for length in image.size)
    return image.crop((left, top, left + side, top + side))


def _normalised(image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...]) -> NDArray[np.float32]:
    numbers = np.asarray(image).transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
    middle, spread = (np.array(values, dtype=np.float32)[:, None, None] for values in (mean, std))
    return np.ascontiguousarray((numbers - middle) / spread)
