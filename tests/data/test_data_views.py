"""Views are pure functions of image and stream: the named ones, and those made of steps."""

import random

import numpy as np
import pytest
import torch
from PIL import Image

from levelfield.data.views import TestView, train_view
from levelfield.data.views.named import AUGMENTS, crop_box, described_view, erase, parse_steps, steps_view
from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.randomness import numpy_stream

MLRC_TRAIN = [{"resize": 256}, {"resized_crop": {"size": 227, "area": [0.16, 1], "ratio": [0.75, 1.33]}}, {"flip": 0.5}]
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def noisy(size=(90, 60)):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def pixels(tensor):
    return ((tensor * 0.5 + 0.5) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_test_view_resizes_the_shorter_side_and_takes_the_centre():
    """Against Pillow alone: 90x60 -> shorter side round(32 / 0.8) = 40 -> 60x40 -> the middle 32x32."""
    image = noisy()
    expected = np.asarray(image.resize((60, 40), Image.Resampling.BICUBIC))[4:36, 14:46]
    view = TestView(image=32, crop=0.8, **HALF)
    assert np.array_equal(pixels(view(image, None)), expected)
    assert train_view("none", image=32, crop=0.8, **HALF) == view
    steps = steps_view([{"resize": 40}, {"centre": 32}], image=32, **HALF)
    assert torch.equal(steps(image), view(image))
    assert not steps.random
    assert not view.random


def test_view_normalises_each_channel():
    view = TestView(image=4, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))
    out = view(Image.new("RGB", (4, 4), (255, 0, 51)))
    assert out.dtype == torch.float32
    assert torch.allclose(out[:, 0, 0], torch.tensor([1.8, -0.8, -0.1]))


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (300, 7), (32, 32)])
@pytest.mark.parametrize("augment", AUGMENTS)
def test_every_view_gives_the_asked_size(augment, size):
    view = train_view(augment, image=32, crop=0.875, **HALF)
    out = view(noisy(size), numpy_stream(0, "view"))
    assert out.shape == (3, 32, 32)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize(
    "view",
    [
        train_view("light", image=32, **HALF),
        train_view("standard", image=32, **HALF),
        steps_view([*MLRC_TRAIN, {"erase": 0.5}], image=227, **HALF),
    ],
    ids=["light", "standard", "steps"],
)
def test_random_view_draws_from_its_stream_only(view):
    assert view.random
    with pytest.raises(BadInput, match="stream"):
        view(noisy(), None)
    random.seed(0)
    torch.manual_seed(0)
    before = torch.get_rng_state(), random.getstate()
    first = view(noisy(), numpy_stream(0, "view", 1))
    assert first.shape == (3, view.image, view.image)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    torch.manual_seed(9)
    assert torch.equal(first, view(noisy(), numpy_stream(0, "view", 1)))
    assert not torch.equal(first, view(noisy(), numpy_stream(0, "view", 2)))


def test_key_differs_with_all_that_decides_the_output():
    made = [
        TestView(image=32, **HALF),
        TestView(image=64, **HALF),
        TestView(image=32, crop=0.9, **HALF),
        TestView(image=32, interpolation="bilinear", **HALF),
        TestView(image=32, mean=(0.4, 0.5, 0.5), std=HALF["std"]),
        TestView(image=32, mean=HALF["mean"], std=(0.5, 0.5, 0.6)),
        train_view("light", image=32, **HALF),
        train_view("light", image=32, crop=0.9, **HALF),
        train_view("standard", image=32, **HALF),
    ]
    centred, cropped = [[{"resize": side}, {"centre": 32}] for side in (40, 41)], [{"resize": 40}, {"crop": 32}]
    lists = [*centred, cropped, [*cropped, "flip"], [*cropped, {"flip": 0.1}]]
    made = [*(steps_view(steps, image=32, **HALF) for steps in lists), *made]
    assert len({view.key for view in made}) == len(made)
    assert train_view("standard", image=32, crop=0.9, **HALF).key == made[-1].key  # crop decides nothing there


def test_light_brings_in_white_and_moves_little():
    """A black image under the light view: mostly black in the middle, white where nothing was."""
    view = train_view("light", image=64, **HALF)
    outs = torch.stack([view(Image.new("RGB", (64, 64)), numpy_stream(0, "view", i)) for i in range(40)])
    assert (outs[:, :, 28:36, 28:36] < -0.6).all()  # not -1: less contrast makes black a little grey
    assert (outs[:, :, 0, 0] > 0).any()


def test_standard_crop_draws_area_ratio_and_flip_as_announced():
    boxes = np.array(
        [
            crop_box(200, 300, area=(0.16, 1.0), ratio=(3 / 4, 4 / 3), stream=numpy_stream(0, "box", i))
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
    view = train_view("standard", image=16, **HALF)
    outs = [view(left_dark, numpy_stream(0, "view", i)) for i in range(400)]
    flipped = np.mean([float(out[..., 0].mean()) > float(out[..., -1].mean()) for out in outs])
    assert flipped == pytest.approx(0.5, abs=0.1)  # 4 standard errors


def test_crop_of_an_extreme_shape_falls_back_to_the_centre():
    box = crop_box(10, 1000, area=(0.9, 1.0), ratio=(3 / 4, 4 / 3), stream=numpy_stream(0, "box"))
    assert box == (0, 493, 10, 13)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interpolation": "cubic"}, "Did you mean 'bicubic'"),
        ({"crop": 1.5}, "crop"),
        ({"image": 0}, "'image' is 0"),
        ({"mean": (0.5,), "std": (0.5,)}, "three numbers"),
    ],
)
def test_bad_settings_of_a_view_are_refused(settings, message):
    with pytest.raises((BadSpecification, UnknownName), match=message):
        TestView(**{"image": 32, **HALF, **settings})


def test_an_unknown_view_names_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'light'"):
        train_view("lihgt", image=32, **HALF)


def test_a_crop_is_a_piece_of_the_resized_image():
    image = noisy((60, 60))
    resized = np.asarray(image.resize((40, 40), Image.Resampling.BICUBIC))
    view = steps_view([{"resize": [40, 40]}, {"crop": 32}], image=32, **HALF)
    pieces = {(t, left): resized[t : t + 32, left : left + 32] for t in range(9) for left in range(9)}
    found = {
        place
        for n in range(40)
        for place, piece in pieces.items()
        if np.array_equal(pixels(view(image, numpy_stream(n))), piece)
    }
    assert len(found) > 20  # many places, all of them real
    flipped = steps_view([{"resize": [40, 40]}, {"centre": 32}, {"flip": 1}], image=32, **HALF)
    assert np.array_equal(pixels(flipped(image, numpy_stream(0))), resized[4:36, 4:36][:, ::-1])


def test_erase_takes_a_rectangle_of_the_asked_area_and_shape():
    shares, counts = [], 0
    for number in range(200):
        gone = erase(torch.ones(3, 64, 48), numpy_stream(number), p=0.5, area=(0.1, 0.2), ratio=(0.5, 2.0))[0] != 1
        if gone.any():
            counts += 1
            rows, columns = gone.any(1), gone.any(0)
            tall, wide = int(rows.sum()), int(columns.sum())
            assert int(gone.sum()) == tall * wide  # one whole rectangle
            assert 0.4 < tall / wide < 2.3  # rounded to whole pixels
            shares.append(tall * wide / gone.numel())
    assert 70 < counts < 130
    assert 0.09 < min(shares) < max(shares) < 0.21


def test_a_view_with_erase_fills_with_the_colour_of_the_released_code():
    view = steps_view([{"resize": 32}, {"centre": 32}, {"erase": {"p": 1.0}}], image=32, **HALF)
    out = view(Image.new("RGB", (32, 32), "white"), numpy_stream(0))
    for channel, filled in zip(out, (0.4914, 0.4822, 0.4465), strict=True):
        assert channel.unique().tolist() == pytest.approx([filled, 1.0])


@pytest.mark.parametrize(
    "view",
    [steps_view([{"resize": 40}, {"centre": 32}], image=32, **HALF), TestView(image=32, crop=0.8, **HALF)],
    ids=["steps", "test"],
)
def test_a_described_view_is_the_same_view(view):
    assert described_view(view.description) == view


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"centre": 227}], "needs 227 pixels but gets an image of any size: put {resize: 227}"),
        ([{"resize": 100}, {"crop": 224}], "needs 224 pixels but gets 100 pixels"),
        ([{"resize": 256}], "end with a square"),
        ([], "end with a square"),
        ([{"resize": 256}, {"erase": 0.5}, {"centre": 224}], "must be the last step"),
        ([{"resized_crop": {"area": [0.1, 1]}}], "needs a size"),
        ([{"resized_crop": {"size": 224, "scale": [0.1, 1]}}], "no setting 'scale'"),
        ([{"resized_crop": {"size": 224, "area": [1, 0.1]}}], "lower number must come first"),
        ([{"resized_crop": {"size": 224, "area": 0.5}}], "must be two numbers"),
        ([{"resized_crop": {"size": 224, "area": [0.5, 2]}}], "'area' is 2"),
        ([{"flip": 1.5}], "between 0 and 1"),
        ([{"resize": 256, "centre": 224}], "a name or"),
        ([{"resize": 256}, {"center": 224}], "Did you mean 'centre'"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps, message):
    with pytest.raises((BadSpecification, UnknownName), match=message):
        parse_steps(steps)
