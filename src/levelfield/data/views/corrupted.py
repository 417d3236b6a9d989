"""A view whose image is corrupted after resizing and cropping, before it is normalised."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from PIL import Image

from levelfield.data import corruptions
from levelfield.data.corruptions import Corruption
from levelfield.data.views.basic import TestView
from levelfield.data.views.named import StepsView

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CorruptedView:
    """A test view with a corruption. The draw depends on the image's pixels and the corruption's name, so that every
    compared model sees the same image.
    """

    view: TestView | StepsView
    corruption: Corruption
    random: ClassVar[bool] = False  # deterministic for a given image
    decoded: ClassVar[int] = 0  # the draw depends on all pixels

    @property
    def key(self) -> str:
        return f"{self.view.key} {self.corruption.key}"

    def __call__(self, image: Image.Image, stream: np.random.Generator | None = None) -> torch.Tensor:
        drawn = corruptions.stream(self.corruption.name, identity(image))
        corrupted = self.corruption(np.asarray(self.view.picture(image)), drawn)
        return self.view.tensor(Image.fromarray(corrupted))


def identity(image: Image.Image) -> str:
    """A hash of the pixels of an RGB image, independent of the file."""
    return hashlib.blake2b(image.tobytes(), digest_size=16, key=repr(image.size).encode()).hexdigest()
