"""Views by name: `standard`, or a list of steps such as `[{resize: 256}, {centre: 227}]`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from levelfield.data.views import basic
from levelfield.errors import BadSpecification, unknown
from levelfield.settings import check_settings, number, span, whole

if TYPE_CHECKING:
    import torch

AUGMENTS = ("none", "light", "standard")
Pair = tuple[float, float]
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of `resized_crop`, as in torchvision
_AREA = (0.16, 1.0)  # of the standard view, as in MLRC (Musgrave et al. 2020)
_TRIES = 10  # attempts to draw a rectangle, as in torchvision
FILL = (0.4914, 0.4822, 0.4465)  # of `erase`: the mean colour of CIFAR-10, as in Zhong et al. 2020
Written = str | Mapping[str, Any]
_MAIN = {"flip": "p", "erase": "p"}  # the setting that may be given alone, e.g. {flip: 0.5}; for other steps: size


@dataclass(frozen=True)
class Step:
    """One step of a view with its settings."""

    name: str
    settings: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> str:
        return f"{self.name}({','.join(f'{name}={value}' for name, value in self.settings)})"

    @property
    def plain(self) -> dict[str, dict[str, Any]]:
        """As plain data, for a file."""
        return {self.name: {name: list(v) if isinstance(v, tuple) else v for name, v in self.settings}}


@dataclass(frozen=True, kw_only=True)
class StepsView(basic.SquareView):
    """Steps applied in order, then normalisation; `image` is the final side length."""

    steps: tuple[Step, ...]
    kind = "steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        if final_side(self.steps) != self.image:
            raise BadSpecification(
                f"The steps of the view end with {final_side(self.steps)} pixels, but image is {self.image}."
            )

    @property
    def random(self) -> bool:
        return is_random(step.name for step in self.steps)

    @property
    def key(self) -> str:
        return self._key(*(step.key for step in self.steps))

    @property
    def description(self) -> dict[str, Any]:
        """Everything needed to recreate this view, as plain data."""
        return self._description(steps=[step.plain for step in self.steps])

    @property
    def decoded(self) -> int:
        first = next(step for step in self.steps if step.name != "flip")
        settings: dict[str, Any] = dict(first.settings)
        if first.name == "resize":
            return basic.decoded_side(int(np.max(settings["size"])))
        if first.name == "resized_crop":
            (smallest, _), (narrow, wide) = settings.get("area", AREA), settings.get("ratio", RATIO)
            share = math.sqrt(smallest * min(narrow, 1 / wide))  # the least side of a crop, of the image's shorter side
            return basic.decoded_side(settings["size"] / share)
        return 0

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        tensor = self.tensor(self.picture(image, stream))
        last = self.steps[-1]
        return erase(tensor, basic.needed(stream), **dict(last.settings)) if last.name == "erase" else tensor

    def picture(self, image: Image.Image, stream: np.random.Generator | None = None) -> Image.Image:
        steps = self.steps
        if [step.name for step in steps[:2]] == ["resize", "centre"]:
            side, size = (dict(step.settings)["size"] for step in steps[:2])
            if isinstance(side, int):
                image, steps = basic.resized_centre(image, side, size, self.interpolation), steps[2:]
        for step in steps:
            if step.name in RANDOM:
                stream = basic.needed(stream)
            if step.name in PICTURE_STEPS:
                image = PICTURE_STEPS[step.name](image, stream, self.interpolation, **dict(step.settings))
        return image


def steps_view(
    steps: Iterable[Written], *, image: int, mean: Sequence[float], std: Sequence[float], interpolation: str = "bicubic"
) -> StepsView:
    """The view made of these steps; `image` is the required final side length.

    >>> view = steps_view([{"resize": 40}, {"crop": 32}, "flip"], image=32, mean=(0.5,) * 3, std=(0.5,) * 3)
    >>> tuple(view(Image.new("RGB", (50, 60)), np.random.default_rng(0)).shape), view.random
    ((3, 32, 32), True)
    """
    parsed = parse_steps(steps)
    return StepsView(steps=parsed, image=image, mean=tuple(mean), std=tuple(std), interpolation=interpolation)


def train_view(
    augment: str,
    *,
    image: int,
    crop: float = 1.0,
    mean: Sequence[float],
    std: Sequence[float],
    interpolation: str = "bicubic",
) -> basic.View:
    """The training view: `none` (the test view itself), `light`, or `standard`: a random resized crop and a flip."""
    plain = basic.TestView(image=image, crop=crop, mean=tuple(mean), std=tuple(std), interpolation=interpolation)
    if augment == "none":
        return plain
    if augment == "light":
        return basic.LightView(**vars(plain))
    if augment == "standard":
        steps: list[Written] = [{"resized_crop": {"size": image, "area": _AREA}}, "flip"]
        return steps_view(steps, image=image, mean=mean, std=std, interpolation=interpolation)
    raise unknown("augment", augment, AUGMENTS)


def described_view(description: Mapping[str, Any]) -> basic.TestView | StepsView:
    """The view given by a `description`."""
    return steps_view(**description) if "steps" in description else basic.TestView(**description)


def parse_steps(steps: Iterable[Written]) -> tuple[Step, ...]:
    """Parse and check steps: names, settings, and whether the sizes are consistent."""
    parsed = tuple(_parse(step) for step in steps)
    final_side(parsed)
    if any(step.name == "erase" for step in parsed[:-1]):
        raise BadSpecification("`erase` works on the finished image: it must be the last step and appear once.")
    return parsed


def is_random(steps: Iterable[Written] | None) -> bool:
    """Whether one of the steps is random."""
    return any((step if isinstance(step, str) else next(iter(step))) in RANDOM for step in steps or ())


def final_side(steps: Sequence[Step]) -> int:
    """The side of the final square. A step may not need more pixels than it is guaranteed to get."""
    least, square = 0, False
    for step in steps:
        size: Any = dict(step.settings).get("size")
        if step.name == "resize":
            square = not isinstance(size, int) and size[0] == size[1]
            least = size if isinstance(size, int) else min(size)
        elif step.name in ("crop", "centre") and size > least:
            there = f"{least} pixels" if least else "an image of any size"
            before = f"put {{resize: {size}}} or more before it"
            raise BadSpecification(f"The step '{step.name}' needs {size} pixels but gets {there}: {before}.")
        elif step.name in ("crop", "centre", "resized_crop"):
            least, square = size, True
    if not square:
        raise BadSpecification("A view must end with a square: add centre, crop or resized_crop with a size.")
    return least


def _parse(written: Written) -> Step:
    if isinstance(written, str):
        written = {written: {}}
    if not isinstance(written, Mapping) or len(written) != 1:
        raise BadSpecification(f"A step of a view must be a name or {{name: setting}}, not {written!r}.")
    ((name, setting),) = written.items()
    if name not in STEPS:
        raise unknown("step of a view", str(name), STEPS)
    main = _MAIN.get(name, "size")
    settings = dict(setting) if isinstance(setting, Mapping) else {main: setting}
    check_settings(f"step '{name}'", settings, STEPS[name])
    if main == "size" and "size" not in settings:
        raise BadSpecification(f"The step '{name}' needs a size, e.g. {{{name}: 224}}.")
    return Step(name, tuple(sorted((key, _value(name, key, value)) for key, value in settings.items())))


def _value(step: str, key: str, value: Any) -> Any:
    """Validate a setting; two numbers become a tuple."""
    if key == "p":
        return number("p", value, least=0, most=1)
    if key != "size":
        return span(key, value, above=0, most=1 if key == "area" else math.inf)
    if step != "resize" or not isinstance(value, list | tuple):
        return whole("size", value, least=1, most=basic.LARGEST)
    if len(value) != 2:
        raise BadSpecification(f"'size' of the step 'resize' is {value!r}; it must be one number, or two numbers.")
    return tuple(whole("size", side, least=1, most=basic.LARGEST) for side in value)


def resize(
    picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int | tuple[int, int]
) -> Image.Image:
    """Resize the shorter side to `size`, or both sides to [height, width]."""
    return basic.resized(picture, size, interpolation)


def centre(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """The middle square."""
    return basic.central_square(picture, size)


def crop(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, size: int) -> Image.Image:
    """Crop a random square."""
    top, left = (int(stream.integers(side - size + 1)) for side in (picture.height, picture.width))
    return picture.crop((left, top, left + size, top + size))


def resized_crop(
    picture: Image.Image,
    stream: np.random.Generator,
    interpolation: str,
    /,
    *,
    size: int,
    area: Pair = AREA,
    ratio: Pair = RATIO,
) -> Image.Image:
    """Crop a rectangle with a random share of the area and a random aspect ratio, and resize it to a square."""
    top, left, height, width = crop_box(picture.height, picture.width, area=area, ratio=ratio, stream=stream)
    return picture.crop((left, top, left + width, top + height)).resize((size, size), basic.FILTERS[interpolation])


def crop_box(
    height: int, width: int, *, area: Pair, ratio: Pair, stream: np.random.Generator
) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a random crop: the first of ten draws that fits, else the largest legal centre."""
    areas = height * width * stream.uniform(*area, size=_TRIES)
    ratios = np.exp(stream.uniform(math.log(ratio[0]), math.log(ratio[1]), size=_TRIES))
    if fitting := _first_fitting(areas, ratios, (width, height)):
        w, h = fitting
        return int(stream.integers(height - h + 1)), int(stream.integers(width - w + 1)), h, w
    w = min(width, max(1, round(height * ratio[1])))
    h = min(height, max(1, round(width / ratio[0])))
    return (height - h) // 2, (width - w) // 2, h, w


def _first_fitting(areas: np.ndarray, ratios: np.ndarray, most: tuple[int, int]) -> tuple[int, int] | None:
    """The sides of the first rectangle, with these areas and ratios of the first side to the second, within `most`."""
    sides = np.rint(np.sqrt([areas * ratios, areas / ratios])).astype(int).T
    fits = np.flatnonzero(((sides > 0) & (sides <= most)).all(axis=1))
    return (int(sides[fits[0], 0]), int(sides[fits[0], 1])) if len(fits) else None


def flip(picture: Image.Image, stream: np.random.Generator, interpolation: str, /, *, p: float = 0.5) -> Image.Image:
    """Flip horizontally with probability `p`."""
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if stream.random() < p else picture


def erase(
    tensor: torch.Tensor,
    stream: np.random.Generator,
    /,
    *,
    p: float = 0.5,
    area: Pair = (0.02, 0.4),
    ratio: Pair = (0.3, 1 / 0.3),
) -> torch.Tensor:
    """With probability `p` fill a rectangle of the normalised image with a colour (Zhong et al. 2020; their code)."""
    happens = stream.random() < p
    height, width = tensor.shape[1:]
    areas = height * width * stream.uniform(*area, size=_TRIES)
    ratios = stream.uniform(*ratio, size=_TRIES)
    fitting = _first_fitting(areas, ratios, (height - 1, width - 1))
    if not happens or fitting is None:
        return tensor
    tall, wide = fitting
    top, left = int(stream.integers(height - tall + 1)), int(stream.integers(width - wide + 1))
    result = tensor.clone()
    result[:, top : top + tall, left : left + wide] = result.new_tensor(FILL)[:, None, None]
    return result


PICTURE_STEPS: dict[str, Callable[..., Image.Image]] = {
    "resize": resize,
    "centre": centre,
    "crop": crop,
    "resized_crop": resized_crop,
    "flip": flip,
}
STEPS: dict[str, Callable[..., Image.Image | torch.Tensor]] = {**PICTURE_STEPS, "erase": erase}
RANDOM = frozenset({"crop", "resized_crop", "flip", "erase"})
