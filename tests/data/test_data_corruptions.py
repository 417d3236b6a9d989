"""Corruptions: laws of all nine, and the effect of each on a few pixels."""

import numpy as np
import pytest

from levelfield.data import corruptions
from levelfield.errors import BadInput, BadSpecification


def noisy(height=40, width=40):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def corrupted(name, image, identity="a", **settings):
    return corruptions.create(name, **settings)(image, corruptions.stream(name, identity))


@pytest.mark.parametrize("name", corruptions.names())
def test_another_image_is_drawn_otherwise(name):
    first, *others = (corrupted(name, noisy(), identity) for identity in "abcdefghij")
    assert any(not np.array_equal(first, other) for other in others)


def test_a_quarter_turn_is_clockwise():
    image = noisy(9, 9)
    assert np.array_equal(corrupted("rotation", image, degrees=90), np.rot90(image, -1))
    assert np.array_equal(corrupted("rotation", image, degrees=0), image)
    assert np.array_equal(corrupted("perspective", noisy(12, 17), scale=0), noisy(12, 17))


def test_beyond_the_border_the_edge_pixel_is_repeated():
    """At 45 degrees the corner of 9x9 is read in column 4 - 4 sqrt(2) = -1.66: between columns 0 and 1, mirrored."""
    image = np.repeat(np.arange(0, 90, 10, dtype=np.uint8)[None, :, None], 9, axis=0).repeat(3, axis=2)
    assert corrupted("rotation", image, degrees=45)[0, 0].tolist() == [7, 7, 7]


def test_perspective_shows_the_inside_only():
    """A bright frame is pushed out of the picture: no empty area comes in."""
    image = np.full((64, 64, 3), 200, dtype=np.uint8)
    for identity in map(str, range(50)):
        assert (corrupted("perspective", image, identity) == 200).all()


def test_blur_by_a_slow_loop():
    image, sigma, reach = noisy(9, 11), 1.3, 2
    weights = [np.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1)]
    result = corrupted("gaussian_blur", image, sigma=sigma)

    def mirrored(place, length):
        return length - 1 - abs(length - 1 - abs(place))

    for y, x in [(0, 0), (8, 10), (4, 5), (1, 9)]:
        total = sum(
            weights[i + reach] * weights[j + reach] * image[mirrored(y + i, 9), mirrored(x + j, 11)].astype(float)
            for i in range(-reach, reach + 1)
            for j in range(-reach, reach + 1)
        )
        assert np.abs(result[y, x] - total / sum(weights) ** 2).max() <= 0.5 + 1e-9


def test_cutout_paints_grey_rectangles():
    image = np.zeros((50, 100, 3), dtype=np.uint8)
    square = corrupted("cutout", image, count=1, squared=True) == 128
    assert max(square.any(axis=(1, 2)).sum(), square.any(axis=(0, 2)).sum()) <= 10  # 0.2 of the shorter side
    holes = [corrupted("cutout", image, identity, count=1) == 128 for identity in map(str, range(20))]
    assert max(hole.any(axis=(1, 2)).sum() for hole in holes) == 10  # 0.2 of the height
    assert max(hole.any(axis=(0, 2)).sum() for hole in holes) == 20  # 0.2 of the width


def test_height_and_width_of_a_cutout_are_drawn_independently():
    image = np.zeros((101, 101, 3), dtype=np.uint8)
    holes = [corrupted("cutout", image, str(k), count=1, size=[0.1, 0.3])[..., 0] == 128 for k in range(200)]
    inside = [hole for hole in holes if not (hole[[0, -1]].any() or hole[:, [0, -1]].any())]
    tall, wide = np.array([(hole.any(axis=1).sum(), hole.any(axis=0).sum()) for hole in inside]).T
    assert abs(np.corrcoef(tall, wide)[0, 1]) < 0.3
    assert min(np.ptp(tall), np.ptp(wide)) > 15


def test_dropout_is_coarse_and_black():
    image = np.full((64, 64, 3), 9, dtype=np.uint8)
    for size, count in ((0.125, 8), (0.02, 4)):  # at least `least` cells
        holes = corrupted("dropout", image, share=0.5, size=size, least=4)[..., 0] == 0
        cells = holes.reshape(count, 64 // count, count, 64 // count)
        assert 0 < holes.mean() < 1
        assert (cells == cells[:, :1, :, :1]).all()


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("rotation", {"angle": 3}, "has no setting 'angle'"),
        ("rotation", {"degrees": [3, -3]}, "the lower number must come first"),
        ("rotation", {"degrees": [1, 2, 3]}, "two numbers"),
        ("gaussian_blur", {"sigma": 0}, "'sigma' is 0"),
        ("salt_and_pepper", {"share": 1.5}, "between 0 and 1"),
        ("jpeg", {"compression": 101}, "between 0 and 100"),
    ],
)
def test_a_wrong_setting_is_told_when_it_is_made(name, settings, told):
    with pytest.raises(BadSpecification, match=told):
        corruptions.create(name, **settings)


def test_numbers_that_are_no_pixels_are_refused():
    with pytest.raises(BadInput, match="uint8 image"):
        corrupted("jpeg", np.zeros((4, 4, 3)))
