"""Views by name: the effect of each step, and invalid lists of steps."""

import numpy as np
import pytest
import torch
from PIL import Image

from levelfield.data.views import basic as views
from levelfield.data.views.named import described_view, erase, parse_steps, steps_view
from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.randomness import numpy_stream

HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
MLRC_TRAIN = [{"resize": 256}, {"resized_crop": {"size": 227, "area": [0.16, 1], "ratio": [0.75, 1.33]}}, {"flip": 0.5}]


def noisy(size=(90, 60)):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def pixels(tensor):
    return ((tensor * 0.5 + 0.5) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_resize_and_centre_are_the_test_view():
    image = noisy()
    ours = steps_view([{"resize": 40}, {"centre": 32}], image=32, **HALF)
    assert not ours.random
    assert torch.equal(ours(image), views.test_view(image=32, crop=0.8, **HALF)(image))


def test_a_resized_crop_and_flip_are_the_standard_view():
    image = noisy()
    steps = [{"resized_crop": {"size": 32, "area": [0.16, 1], "ratio": [3 / 4, 4 / 3]}}, {"flip": 0.5}]
    ours, theirs = steps_view(steps, image=32, **HALF), views.train_view("standard", image=32, **HALF)
    for number in range(4):
        assert torch.equal(ours(image, numpy_stream(number)), theirs(image, numpy_stream(number)))


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


def test_both_sides_can_be_resized():
    view = steps_view([{"resize": [32, 32]}], image=32, **HALF)
    assert np.array_equal(pixels(view(noisy())), np.asarray(noisy().resize((32, 32), Image.Resampling.BICUBIC)))


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


def test_what_is_drawn_depends_on_the_stream_alone():
    view = steps_view([*MLRC_TRAIN, {"erase": 0.5}], image=227, **HALF)
    first = view(noisy(), numpy_stream(3))
    assert first.shape == (3, 227, 227)
    assert torch.equal(first, view(noisy(), numpy_stream(3)))
    assert not torch.equal(first, view(noisy(), numpy_stream(4)))
    with pytest.raises(BadInput, match="random"):
        view(noisy())


def test_the_key_says_everything():
    cropped = [{"resize": 40}, {"crop": 32}]
    lists = [
        [{"resize": 40}, {"centre": 32}],
        [{"resize": 41}, {"centre": 32}],
        cropped,
        [*cropped, "flip"],
        [*cropped, {"flip": 0.1}],
    ]
    assert len({steps_view(steps, image=32, **HALF).key for steps in lists}) == 5


@pytest.mark.parametrize(
    "view",
    [steps_view([{"resize": 40}, {"centre": 32}], image=32, **HALF), views.test_view(image=32, crop=0.8, **HALF)],
    ids=["steps", "test"],
)
def test_a_described_view_is_the_same_view(view):
    assert described_view(view.description) == view


@pytest.mark.parametrize(
    ("steps", "told"),
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
    ],
)
def test_steps_that_make_no_sense_are_refused(steps, told):
    with pytest.raises(BadSpecification, match=told):
        parse_steps(steps)


def test_an_unknown_step_has_a_nearest_one():
    with pytest.raises(UnknownName, match="Did you mean 'centre'"):
        parse_steps([{"resize": 256}, {"center": 224}])


def test_the_side_must_be_the_image_size():
    with pytest.raises(BadSpecification, match="end with 224 pixels, but image is 227"):
        steps_view([{"resize": 256}, {"centre": 224}], image=227, **HALF)
