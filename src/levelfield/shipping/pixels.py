"""A test view without torch: the bits of the view, as numpy numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from levelfield.data.views.basic import TestView
from levelfield.data.views.named import StepsView
from levelfield.errors import BadInput

STEPS = ("resize", "centre")


def pixels(view: TestView | StepsView, image: Image.Image) -> NDArray[np.float32]:
    """RGB image to float32 (3, side, side), as `view(image)` gives it.

    >>> view = TestView(4, 1.0, (0.5,) * 3, (0.5,) * 3, "bicubic")
    >>> pixels(view, Image.new("RGB", (9, 7), "white"))[:, 0, 0]
    array([1., 1., 1.], dtype=float32)
    """
    return _normalised(view.picture(image), view.mean, view.std)


def check_view(view: TestView | StepsView) -> None:
    """Refuse a view with a step that needs torch or random numbers."""
    strange = [step.name for step in view.steps if step.name not in STEPS] if isinstance(view, StepsView) else []
    if strange:
        raise BadInput(f"The test view has the step '{strange[0]}'; an exported model can have {' and '.join(STEPS)}.")


def _normalised(image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...]) -> NDArray[np.float32]:
    numbers = np.asarray(image).transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
    middle, spread = (np.array(values, dtype=np.float32)[:, None, None] for values in (mean, std))
    return np.ascontiguousarray((numbers - middle) / spread)
