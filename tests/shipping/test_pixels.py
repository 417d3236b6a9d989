"""The view without torch gives the bits of the torch view."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from levelfield.data.views.basic import test_view as make_view
from levelfield.data.views.named import steps_view
from levelfield.errors import BadInput
from levelfield.randomness import numpy_stream
from levelfield.shipping.description import check_view, pixels

COLOUR = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
VIEWS = {
    "bicubic": make_view(image=32, **COLOUR),
    "crop": make_view(image=33, crop=0.875, **COLOUR),
    "bilinear": make_view(image=32, crop=0.9, interpolation="bilinear", **COLOUR),
    "nearest": make_view(image=24, interpolation="nearest", **COLOUR),
    "steps": steps_view([{"resize": 47}, {"centre": 32}], image=32, **COLOUR),
    "both sides": steps_view([{"resize": [41, 36]}, {"centre": 31}], image=31, **COLOUR),
}


@pytest.mark.parametrize("name", VIEWS)
def test_pixels_are_those_of_the_torch_view_to_the_bit(name: str) -> None:
    for height, width in ((32, 32), (47, 61), (120, 33), (5, 90), (1, 1)):
        colours = numpy_stream(0, height, width).integers(0, 256, size=(height, width, 3), dtype=np.uint8)
        image = Image.fromarray(colours)
        found = pixels(VIEWS[name], image)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, VIEWS[name](image).numpy())


def test_a_step_with_random_numbers_is_refused() -> None:
    with pytest.raises(BadInput, match="the step 'crop'"):
        check_view(steps_view([{"resize": 40}, {"crop": 32}], image=32, **COLOUR))
