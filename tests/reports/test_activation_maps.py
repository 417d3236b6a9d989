"""Activation maps drawn over an image."""

import numpy as np
import pytest
from PIL import Image

from levelfield.errors import BadInput
from levelfield.reports.figures.activation_maps import draw_activation_maps, overlaid, top_maps


def test_a_hot_corner_is_red_and_a_cold_one_blue():
    image = np.full((20, 30, 3), 100, dtype=np.uint8)
    heat = np.zeros((4, 4))
    heat[0, 0] = 1.0
    result = overlaid(image, heat)
    assert result.shape == image.shape
    assert result[0, 0, 0] > result[0, 0, 2]
    assert result[-1, -1, 2] > result[-1, -1, 0]


def test_rows_are_the_image_and_each_network(tmp_path):
    images = [np.full((16, 16, 3), shade, dtype=np.uint8) for shade in (50, 200)]
    maps = [np.random.default_rng(k).random((5, 4, 4)) for k in range(2)]
    path = draw_activation_maps(images, {"baseline": maps, "method": maps}, tmp_path / "maps.png")
    with Image.open(path) as drawn:
        assert drawn.width > drawn.height  # two images of three channels side by side


def test_too_few_channels_are_refused():
    with pytest.raises(BadInput, match="at least 3 channels"):
        top_maps(np.zeros((2, 4, 4)))
