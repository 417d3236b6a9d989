"""Views turn an image and a random stream into a normalised tensor. All randomness comes from the stream."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from levelfield.data.views.resizing import FILTERS, decoded_side, resized, resized_centre
from levelfield.errors import BadInput, BadSpecification, unknown

if TYPE_CHECKING:
    import torch

AUGMENTS = ("none", "light", "standard")
INTERPOLATIONS = tuple(FILTERS)

# Part of every key: increase it when a view's pixels change, so that caches do not mix versions.
_VERSION = 2
_WHITE = [255, 255, 255]


class View(Protocol):
    """Interface of a view."""

    @property
    def key(self) -> str:
        """Everything that determines the output, as text."""

    @property
    def random(self) -> bool:
        """Whether the view draws from the stream."""

    @property
    def decoded(self) -> int:
        """A JPEG file is decoded at 1/2, 1/4 or 1/8 of its size if both sides keep this many pixels; 0: never."""

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        """RGB image to float32 (3, size, size)."""


@dataclass(frozen=True)
class TestView:
    """Shorter side to round(image / crop), centre crop."""

    __test__ = False  # not a test case, despite its name

    image: int
    crop: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    random = False

    @property
    def key(self) -> str:
        return f"test(crop={self.crop:g};{common_key(self)})"

    @property
    def description(self) -> dict[str, Any]:
        """Everything needed to recreate this view, as plain data."""
        return {
            "image": self.image,
            "crop": self.crop,
            "mean": list(self.mean),
            "std": list(self.std),
            "interpolation": self.interpolation,
        }

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        return self.tensor(self.picture(image))

    def picture(self, image: Image.Image, stream: np.random.Generator | None = None) -> Image.Image:
        """The transformed image before normalisation."""
        return resized_centre(image, _shorter_side(self), self.image, self.interpolation)

    @property
    def decoded(self) -> int:
        return decoded_side(_shorter_side(self))

    def tensor(self, picture: Image.Image) -> torch.Tensor:
        return normalised(picture, self.mean, self.std)


@dataclass(frozen=True)
class LightView:
    """The test view with a small random rotation, scale, shift and colour change. The border is filled with white.

    Seven uniform draws: angle, scale, shift right, shift down, brightness, contrast, saturation.
    """

    image: int
    crop: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    rotation: float = 15.0  # degrees
    scale: tuple[float, float] = (0.75, 1.1)
    shift: float = 0.08  # share of the image's side
    colour: float = 0.3
    random = True

    @property
    def key(self) -> str:
        return (
            f"light(crop={self.crop:g};rotation={self.rotation:g};scale={self.scale[0]:g}-{self.scale[1]:g};"
            f"shift={self.shift:g};colour={self.colour:g};{common_key(self)})"
        )

    @property
    def decoded(self) -> int:
        return decoded_side(_shorter_side(self))

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        draw = needed(stream).uniform
        moved = functional().affine(
            resized(image, _shorter_side(self), self.interpolation),
            angle=float(draw(-self.rotation, self.rotation)),
            scale=float(draw(*self.scale)),
            translate=[float(draw(-self.shift, self.shift)) * self.image for _ in "xy"],
            shear=[0.0, 0.0],
            interpolation=mode(self.interpolation),
            fill=_WHITE,
        )
        picture = functional().center_crop(moved, [self.image])
        for adjust in (functional().adjust_brightness, functional().adjust_contrast, functional().adjust_saturation):
            picture = adjust(picture, float(draw(1 - self.colour, 1 + self.colour)))
        return normalised(picture, self.mean, self.std)


@dataclass(frozen=True)
class StandardView:
    """Random resized crop and flip: area 0.16-1 and ratio 3/4-4/3 as in MLRC (Musgrave et al. 2020), flip 0.5."""

    image: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    area: tuple[float, float] = (0.16, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    random = True

    @property
    def key(self) -> str:
        return (
            f"standard(area={self.area[0]:g}-{self.area[1]:g};ratio={self.ratio[0]:g}-{self.ratio[1]:g};"
            f"flip={self.flip:g};{common_key(self)})"
        )

    @property
    def decoded(self) -> int:
        return decoded_side(self.image / least_crop(self.area, self.ratio))

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        stream = needed(stream)
        picture = random_crop(image, self.image, self.interpolation, area=self.area, ratio=self.ratio, stream=stream)
        if stream.random() < self.flip:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return normalised(picture, self.mean, self.std)


def test_view(
    *,
    image: int,
    crop: float = 1.0,  # noqa: PT028  (a view for testing, not a test)
    mean: Sequence[float],
    std: Sequence[float],
    interpolation: str = "bicubic",  # noqa: PT028
) -> TestView:
    """The test view: shorter side to round(image / crop), centre crop, normalised.

    >>> view = test_view(image=32, crop=0.875, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> tuple(view(Image.new("RGB", (50, 40), "white")).shape), view.random
    ((3, 32, 32), False)
    """
    return TestView(**_checked(image, crop, mean, std, interpolation))


test_view.__test__ = False  # type: ignore[attr-defined]  # a view for testing, not a test


def train_view(
    augment: str,
    *,
    image: int,
    crop: float = 1.0,
    mean: Sequence[float],
    std: Sequence[float],
    interpolation: str = "bicubic",
) -> View:
    """The training view: `none` (the test view itself), `light` or `standard`.

    >>> view = train_view("light", image=32, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> tuple(view(Image.new("RGB", (50, 40)), np.random.default_rng(0)).shape), view.random
    ((3, 32, 32), True)
    """
    settings = _checked(image, crop, mean, std, interpolation)
    if augment == "standard":
        del settings["crop"]  # its crop is random
    makers: dict[str, Callable[..., View]] = {"none": TestView, "light": LightView, "standard": StandardView}
    if augment not in makers:
        raise unknown("augment", augment, AUGMENTS)
    return makers[augment](**settings)


def crop_box(
    height: int, width: int, *, area: tuple[float, float], ratio: tuple[float, float], stream: np.random.Generator
) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a random crop: the first of ten draws that fits, else the largest legal centre."""
    areas = height * width * stream.uniform(*area, size=10)
    ratios = np.exp(stream.uniform(math.log(ratio[0]), math.log(ratio[1]), size=10))
    widths, heights = np.rint(np.sqrt(areas * ratios)).astype(int), np.rint(np.sqrt(areas / ratios)).astype(int)
    fits = np.flatnonzero((widths > 0) & (widths <= width) & (heights > 0) & (heights <= height))
    if len(fits):
        h, w = int(heights[fits[0]]), int(widths[fits[0]])
        return int(stream.integers(height - h + 1)), int(stream.integers(width - w + 1)), h, w
    w = min(width, max(1, round(height * ratio[1])))
    h = min(height, max(1, round(width / ratio[0])))
    return (height - h) // 2, (width - w) // 2, h, w


def random_crop(
    image: Image.Image, size: int, interpolation: str, *, stream: np.random.Generator, **box: tuple[float, float]
) -> Image.Image:
    """A random crop (see `crop_box`), resized to a square."""
    top, left, height, width = crop_box(image.height, image.width, stream=stream, **box)
    return image.crop((left, top, left + width, top + height)).resize((size, size), FILTERS[interpolation])


def least_crop(area: tuple[float, float], ratio: tuple[float, float]) -> float:
    """The shortest side of a random crop, as a share of the shorter side of the image."""
    return math.sqrt(area[0] * min(ratio[0], 1 / ratio[1]))


@functools.cache
def functional() -> Any:
    """torchvision's image functions, imported on first use because that takes seconds."""
    import levelfield._torchvision  # noqa: F401  (has to come before torchvision)

    # isort: split
    from torchvision.transforms.v2 import functional

    return functional


@functools.cache
def mode(interpolation: str) -> Any:
    """torchvision's name of an interpolation."""
    functional()
    from torchvision.transforms import InterpolationMode

    return InterpolationMode(interpolation)


def _shorter_side(view: TestView | LightView) -> int:
    """The shorter side of the resized image, in pixels."""
    return max(view.image, round(view.image / view.crop))


def normalised(image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    """RGB in 0..1 minus the mean, divided by the standard deviation: float32 (3, height, width)."""
    import torch

    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    numbers = pixels.to(torch.float32, memory_format=torch.contiguous_format).mul_(1 / 255)
    middle, spread = (torch.tensor(values)[:, None, None] for values in (mean, std))
    return numbers.sub_(middle).div_(spread)


def needed(stream: np.random.Generator | None) -> np.random.Generator:
    """The stream; an error if it is missing."""
    if stream is None:
        raise BadInput("This view is random: call it with a stream, view(image, numpy_stream(seed, 'view', ...)).")
    return stream


def common_key(view: Any) -> str:
    """The part of a key shared by all views: `image`, `interpolation`, `mean`, `std`."""
    mean, std = (",".join(f"{value:g}" for value in values) for values in (view.mean, view.std))
    return f"image={view.image};interpolation={view.interpolation};mean={mean};std={std};version={_VERSION}"


def _checked(
    image: int, crop: float, mean: Sequence[float], std: Sequence[float], interpolation: str
) -> dict[str, Any]:
    if image < 1:
        raise BadSpecification(f"The image size must be at least 1, not {image}.")
    if not 0 < crop <= 1:
        raise BadSpecification(
            f"crop (the share of the shorter side to keep) must be above 0 and at most 1, not {crop}."
        )
    if interpolation not in INTERPOLATIONS:
        raise unknown("interpolation", interpolation, INTERPOLATIONS)
    if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
        raise BadSpecification(f"mean and std must have three numbers each, with std above 0; got {mean} and {std}.")
    return {
        "image": int(image),
        "crop": float(crop),
        "mean": tuple(map(float, mean)),
        "std": tuple(map(float, std)),
        "interpolation": interpolation,
    }
