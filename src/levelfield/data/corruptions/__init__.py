"""Input corruptions, such as the nine of lim2022 A.3: pure functions of a uint8 RGB image and a random stream.

The nine match imgaug 0.4 but do not need it. One draw per image. A new file here is found automatically.

>>> {"cutout", "dropout", "gaussian_blur"} <= set(names())
True
>>> image = np.full((8, 8, 3), 250, dtype=np.uint8)
>>> int(create("uniform_noise", value=20)(image, stream("uniform_noise", "a.png")).max())
255
"""

from __future__ import annotations

import numpy as np

from levelfield.data.corruptions._registry import Corruption, chosen, create, describe, names, register
from levelfield.data.corruptions._registry import Span as Span
from levelfield.data.corruptions._registry import drawn_whole as drawn_whole
from levelfield.randomness import numpy_stream

__all__ = ["Corruption", "Span", "chosen", "create", "describe", "drawn_whole", "names", "register", "stream"]


def stream(name: str, identity: str) -> np.random.Generator:
    """The random stream of corruption `name` for the image `identity` (its digest), the same for every model."""
    return numpy_stream(0, "corruption", name, identity)
