"""Views are pure functions of image and stream."""

import random

import numpy as np
import pytest
import torch
from PIL import Image

from levelfield.data.views import basic as views
from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.randomness import numpy_stream

HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def noisy(size=(90, 60)):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def pixels(tensor):
    return ((tensor * 0.5 + 0.5) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_test_view_resizes_the_shorter_side_and_takes_the_centre():
    """Against Pillow alone: 90x60 -> shorter side round(32 / 0.8) = 40 -> 60x40 -> the middle 32x32."""
    image = noisy()
    expected = np.asarray(image.resize((60, 40), Image.Resampling.BICUBIC))[4:36, 14:46]
    view = views.test_view(image=32, crop=0.8, **HALF)
    assert np.array_equal(pixels(view(image, None)), expected)


def test_test_view_of_its_own_size_changes_no_pixel():
    image = noisy((32, 32))
    assert np.array_equal(pixels(views.test_view(image=32, **HALF)(image)), np.asarray(image))


def test_view_normalises_each_channel():
    view = views.test_view(image=4, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))
    out = view(Image.new("RGB", (4, 4), (255, 0, 51)))
    assert out.dtype == torch.float32
    assert torch.allclose(out[:, 0, 0], torch.tensor([1.8, -0.8, -0.1]))


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (300, 7), (32, 32)])
@pytest.mark.parametrize("augment", views.AUGMENTS)
def test_every_view_gives_the_asked_size(augment, size):
    view = views.train_view(augment, image=32, crop=0.875, **HALF)
    out = view(noisy(size), numpy_stream(0, "view"))
    assert out.shape == (3, 32, 32)
    assert torch.isfinite(out).all()


def test_none_is_the_test_view_with_the_same_key():
    train, test = views.train_view("none", image=32, crop=0.8, **HALF), views.test_view(image=32, crop=0.8, **HALF)
    assert train == test
    assert train.key == test.key
    assert not train.random


@pytest.mark.parametrize("augment", ["light", "standard"])
def test_random_view_draws_from_its_stream_only(augment):
    view = views.train_view(augment, image=32, **HALF)
    assert view.random
    random.seed(0)
    torch.manual_seed(0)
    before = torch.get_rng_state(), random.getstate()
    first = view(noisy(), numpy_stream(0, "view", 1))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    torch.manual_seed(9)
    assert torch.equal(first, view(noisy(), numpy_stream(0, "view", 1)))
    assert not torch.equal(first, view(noisy(), numpy_stream(0, "view", 2)))


@pytest.mark.parametrize("augment", views.AUGMENTS)
def test_view_leaves_the_image_as_it_was(augment):
    image = noisy()
    before = image.tobytes()
    views.train_view(augment, image=32, **HALF)(image, numpy_stream(0, "view"))
    assert image.tobytes() == before


def test_random_view_without_stream_says_so():
    with pytest.raises(BadInput, match="stream"):
        views.train_view("light", image=32, **HALF)(noisy(), None)


def test_key_differs_with_all_that_decides_the_output():
    made = [
        views.test_view(image=32, **HALF),
        views.test_view(image=64, **HALF),
        views.test_view(image=32, crop=0.9, **HALF),
        views.test_view(image=32, interpolation="bilinear", **HALF),
        views.test_view(image=32, mean=(0.4, 0.5, 0.5), std=HALF["std"]),
        views.test_view(image=32, mean=HALF["mean"], std=(0.5, 0.5, 0.6)),
        views.train_view("light", image=32, **HALF),
        views.train_view("light", image=32, crop=0.9, **HALF),
        views.train_view("standard", image=32, **HALF),
    ]
    assert len({view.key for view in made}) == len(made)
    assert views.train_view("standard", image=32, crop=0.9, **HALF).key == made[-1].key  # crop decides nothing there


def test_light_brings_in_white_and_moves_little():
    """A black image under the light view: mostly black in the middle, white where nothing was."""
    view = views.train_view("light", image=64, **HALF)
    outs = torch.stack([view(Image.new("RGB", (64, 64)), numpy_stream(0, "view", i)) for i in range(40)])
    assert (outs[:, :, 28:36, 28:36] < -0.6).all()  # not -1: less contrast makes black a little grey
    assert (outs[:, :, 0, 0] > 0).any()


def test_standard_crop_draws_area_ratio_and_flip_as_announced():
    boxes = np.array(
        [
            views.crop_box(200, 300, area=(0.16, 1.0), ratio=(3 / 4, 4 / 3), stream=numpy_stream(0, "box", i))
            for i in range(2000)
        ]
    )
    top, left, height, width = boxes.T
    share, ratio = height * width / 60_000, width / height
    assert top.min() == left.min() == 0
    assert (top + height).max() == 200
    assert (left + width).max() == 300
    assert share.min() == pytest.approx(0.16, abs=0.01)
    assert share.max() <= 1
    assert ratio.min() == pytest.approx(0.75, abs=0.02)
    assert ratio.max() == pytest.approx(4 / 3, abs=0.02)
    left_dark = Image.fromarray(np.tile(np.linspace(0, 255, 60).astype(np.uint8)[None, :, None], (40, 1, 3)))
    view = views.train_view("standard", image=16, **HALF)
    outs = [view(left_dark, numpy_stream(0, "view", i)) for i in range(400)]
    flipped = np.mean([float(out[..., 0].mean()) > float(out[..., -1].mean()) for out in outs])
    assert flipped == pytest.approx(0.5, abs=0.1)  # 4 standard errors


def test_crop_of_an_extreme_shape_falls_back_to_the_centre():
    box = views.crop_box(10, 1000, area=(0.9, 1.0), ratio=(3 / 4, 4 / 3), stream=numpy_stream(0, "box"))
    assert box == (0, 493, 10, 13)


def test_bad_settings_are_refused():
    with pytest.raises(UnknownName, match="Did you mean 'light'"):
        views.train_view("lihgt", image=32, **HALF)
    with pytest.raises(UnknownName, match="Did you mean 'bicubic'"):
        views.test_view(image=32, interpolation="cubic", **HALF)
    with pytest.raises(BadSpecification, match="crop"):
        views.test_view(image=32, crop=1.5, **HALF)
    with pytest.raises(BadSpecification, match="image size"):
        views.test_view(image=0, **HALF)
    with pytest.raises(BadSpecification, match="three numbers"):
        views.test_view(image=32, mean=(0.5,), std=(0.5,))
