"""Shared by the tests of commands: generated photos, and the result of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one message of a command that was refused."""
        assert self.code == 1, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        [told] = re.findall(r"^Error: .*", self.err, re.MULTILINE | re.DOTALL)
        return str(told).strip()

    @property
    def printed(self) -> str:
        """What a command printed that ended well."""
        assert self.code == 0, (self.code, self.out, self.err)
        return self.out


Levelfield = Callable[..., Ended]


def make_photos(folder: Path, *, classes: int = 8, each: int | Sequence[int] = 4, side: int = 32) -> Path:
    """One sub-folder per class; the images of a class share a pattern of 4 x 4 fields."""
    random = np.random.default_rng(0)
    counts = [each] * classes if isinstance(each, int) else list(each)
    for label, count in enumerate(counts):
        (folder / f"class {label:02d}").mkdir(parents=True)
        pattern = random.integers(0, 256, size=(4, 4, 3))
        for number in range(count):
            pixels = np.clip(pattern + random.normal(0, 40, size=pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).resize((side, side)).save(folder / f"class {label:02d}" / f"{number}.png")
    return folder
