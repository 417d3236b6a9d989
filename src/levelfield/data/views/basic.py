"""Views turn an image and a random stream into a normalised tensor. All randomness comes from the stream.

Images are resized and cropped with Pillow alone: always antialiased, and bit-identical on any number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from PIL import Image

from levelfield.errors import BadInput, BadSpecification, unknown
from levelfield.settings import number, whole

if TYPE_CHECKING:
    import torch

FILTERS = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
}
LARGEST = 4096  # pixels per side of a resized image
LARGEST_INPUT = 1024  # of what a network sees
_SPARE = 2.0  # as in Pillow's thumbnails (`reducing_gap`): almost the result of decoding in full

# Part of every key: increase it when a view's pixels change, so that caches do not mix versions.
_VERSION = 2


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


@dataclass(frozen=True, kw_only=True)
class SquareView:
    """What all views share: the side of the square in pixels, the normalisation and the interpolation."""

    image: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", whole("image", self.image, least=1, most=LARGEST_INPUT))
        if self.interpolation not in FILTERS:
            raise unknown("interpolation", self.interpolation, FILTERS)
        mean = tuple(number("mean", value, least=-1e6, most=1e6) for value in self.mean)
        std = tuple(number("std", value, least=1e-6, most=1e6) for value in self.std)
        if len(mean) != 3 or len(std) != 3:
            raise BadSpecification(f"mean and std must have three numbers each; got {mean} and {std}.")
        for name, value in (("mean", mean), ("std", std)):
            object.__setattr__(self, name, value)

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        return self.tensor(self.picture(image, stream))

    def picture(self, image: Image.Image, stream: np.random.Generator | None = None) -> Image.Image:
        """The transformed image before normalisation."""
        raise NotImplementedError

    def tensor(self, picture: Image.Image) -> torch.Tensor:
        """RGB in 0..1 minus the mean, divided by the standard deviation: float32 (3, height, width)."""
        import torch

        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        numbers = pixels.to(torch.float32, memory_format=torch.contiguous_format).mul_(1 / 255)
        middle, spread = (torch.tensor(values)[:, None, None] for values in (self.mean, self.std))
        return numbers.sub_(middle).div_(spread)

    @property
    def key(self) -> str:
        """Everything that determines the output, as text."""
        further = fields(self)[len(fields(SquareView)) :]
        settings = {field.name: getattr(self, field.name) for field in further}
        ranges = {name: value if isinstance(value, tuple) else (value,) for name, value in settings.items()}
        return self._key(*(f"{name}={'-'.join(f'{end:g}' for end in ends)}" for name, ends in ranges.items()))

    def _key(self, *settings: str) -> str:
        mean, std = (",".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        shared = (f"image={self.image}", f"interpolation={self.interpolation}", f"mean={mean}", f"std={std}")
        return f"{self.kind}({';'.join((*settings, *shared, f'version={_VERSION}'))})"

    def _description(self, **settings: Any) -> dict[str, Any]:
        shared = {"mean": list(self.mean), "std": list(self.std), "interpolation": self.interpolation}
        return {"image": self.image, **settings, **shared}


@dataclass(frozen=True, kw_only=True)
class TestView(SquareView):
    """Shorter side to round(image / crop), centre crop."""

    __test__ = False  # not a test case, despite its name

    crop: float = 1.0
    random, kind = False, "test"

    def __post_init__(self) -> None:
        super().__post_init__()
        if number("crop", self.crop, above=0, most=1) * LARGEST < self.image:
            raise BadSpecification(
                f"'crop' is {self.crop}: images would be resized to {self.image / self.crop:g} pixels, more than "
                f"{LARGEST}. For images of {self.image} pixels it must be at least {self.image / LARGEST:.3g}."
            )

    @property
    def description(self) -> dict[str, Any]:
        """Everything needed to recreate this view, as plain data."""
        return self._description(crop=float(self.crop))

    @property
    def decoded(self) -> int:
        return decoded_side(self.shorter_side)

    @property
    def shorter_side(self) -> int:
        """The shorter side of the resized image, in pixels."""
        return max(self.image, round(self.image / self.crop))

    def picture(self, image: Image.Image, stream: np.random.Generator | None = None) -> Image.Image:
        return resized_centre(image, self.shorter_side, self.image, self.interpolation)


@dataclass(frozen=True, kw_only=True)
class LightView(TestView):
    """The test view with a small random rotation, scale, shift and colour change. The border is filled with white.

    Seven uniform draws: angle, scale, shift right, shift down, brightness, contrast, saturation.
    """

    rotation: float = 15.0  # degrees
    scale: tuple[float, float] = (0.75, 1.1)
    shift: float = 0.08  # share of the image's side
    colour: float = 0.3
    random, kind = True, "light"

    def picture(self, image: Image.Image, stream: np.random.Generator | None = None) -> Image.Image:
        import levelfield._torchvision  # noqa: F401  (has to come before torchvision)

        # isort: split
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2 import functional

        draw = needed(stream).uniform
        moved = functional.affine(
            resized(image, self.shorter_side, self.interpolation),
            angle=float(draw(-self.rotation, self.rotation)),
            scale=float(draw(*self.scale)),
            translate=[float(draw(-self.shift, self.shift)) * self.image for _ in "xy"],
            shear=[0.0, 0.0],
            interpolation=InterpolationMode(self.interpolation),
            fill=[255, 255, 255],
        )
        picture: Image.Image = functional.center_crop(moved, [self.image])
        for adjust in (functional.adjust_brightness, functional.adjust_contrast, functional.adjust_saturation):
            picture = adjust(picture, float(draw(1 - self.colour, 1 + self.colour)))
        return picture


def needed(stream: np.random.Generator | None) -> np.random.Generator:
    """The stream; an error if it is missing."""
    if stream is None:
        raise BadInput("This view is random: call it with a stream, view(image, numpy_stream(seed, 'view', ...)).")
    return stream


def decoded_side(side: float) -> int:
    """Pixels per side that a JPEG is decoded with at least, for a view that resizes the shorter side to `side`."""
    return math.ceil(_SPARE * side)


def resized(image: Image.Image, size: int | tuple[int, int], interpolation: str) -> Image.Image:
    """The shorter side becomes `size`, or both sides become (height, width)."""
    sides = _sides(image, size) if isinstance(size, int) else (size[1], size[0])
    return image if sides == image.size else image.resize(sides, FILTERS[interpolation])


def central_square(image: Image.Image, size: int) -> Image.Image:
    """The middle square."""
    left, top = (round((length - size) / 2) for length in image.size)
    return image.crop((left, top, left + size, top + size))


def resized_centre(image: Image.Image, side: int, size: int, interpolation: str) -> Image.Image:
    """`central_square(resized(image, side), size)` up to rounding, without the pixels outside the square."""
    sides = _sides(image, side)
    if interpolation == "nearest":  # rounding could choose another pixel
        return central_square(resized(image, side, interpolation), size)
    starts = [round((length - size) / 2) for length in sides]
    scales = [before / after for before, after in zip(image.size, sides, strict=True)]
    corner = [start * scale for start, scale in zip(starts, scales, strict=True)]
    opposite = [
        min((start + size) * scale, length) for start, scale, length in zip(starts, scales, image.size, strict=True)
    ]
    return image.resize((size, size), FILTERS[interpolation], box=(corner[0], corner[1], opposite[0], opposite[1]))


def _sides(image: Image.Image, size: int) -> tuple[int, int]:
    """Width and height once the shorter side has `size` pixels."""
    longer = int(size * max(image.size) / min(image.size))
    return (size, longer) if image.width <= image.height else (longer, size)
