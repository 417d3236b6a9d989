"""Registry of corruptions; settings are checked on creation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.errors import BadInput, BadSpecification
from levelfield.registry import Registry, code_of, short_name
from levelfield.settings import accepted, check_settings, span

Span = float | Sequence[float]
"""A number, or a range (low, high) to draw from for each image."""

# Part of every key: increase it when a corruption's pixels change.
_VERSION = 1
registry: Registry[np.ndarray] = Registry("corruption", "corruptions", home="levelfield.data.corruptions")
register, names = registry.register, registry.names


@dataclass(frozen=True)
class Corruption:
    """One of the corruptions with its settings: `corruption(image, stream)`."""

    name: str
    settings: Mapping[str, Any]
    function: Callable[..., np.ndarray]

    @property
    def key(self) -> str:
        """Everything that determines the output besides image and stream, as text."""
        written = ";".join(f"{key}={value}" for key, value in sorted(self.settings.items()))
        of_a_file = f";code={code}" if (code := code_of(self.function)) else ""
        return f"{self.name}({written};version={_VERSION}{of_a_file})"

    def __call__(self, image: np.ndarray, stream: np.random.Generator) -> np.ndarray:
        """uint8 (height, width, 3) -> a corrupted copy; the input is not changed."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise BadInput(f"A corruption needs a uint8 image (height, width, 3), not {image.dtype} {image.shape}.")
        return self.function(image, stream, **self.settings)


def create(name: str, **settings: Any) -> Corruption:
    """The corruption `name`, or `my_corruptions.py:function`; the defaults are those of lim2022 A.3."""
    function = registry.get(name)
    check_settings(f"corruption '{name}'", settings, function)
    corruption = Corruption(name, {**(accepted(function) or {}), **settings}, function)
    result = corruption(np.zeros((8, 8, 3), dtype=np.uint8), np.random.default_rng(0))  # report invalid values now
    if not isinstance(result, np.ndarray) or result.dtype != np.uint8 or result.shape != (8, 8, 3):
        raise BadInput(f"The corruption '{name}' must give a uint8 image of the same size (height, width, 3).")
    return corruption


def describe(name: str) -> str:
    """One-sentence description of a corruption."""
    return (inspect.getdoc(registry.get(name)) or "").partition("\n")[0]


def chosen(wanted: str | Sequence[str]) -> tuple[str, ...]:
    """Names from "all", from a comma-separated text, or from a list; without duplicates.

    Does not run the file of `my_corruptions.py:function`.

    >>> chosen("rotation, jpeg"), chosen("all") == tuple(names())
    (('rotation', 'jpeg'), True)
    """
    listed = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    selected = [name for each in listed if (name := str(each).strip())]
    if selected == ["all"]:
        return tuple(names())
    for name in selected:
        if short_name(name) == name:
            registry.get(name)
    if not selected or len(set(selected)) < len(selected):
        raise BadSpecification(
            f"'{', '.join(selected)}' is empty or has a duplicate name; `all` selects all corruptions."
        )
    return tuple(selected)


def drawn(setting: str, value: Span, stream: np.random.Generator, *, least: float, most: float) -> float:
    """A uniform draw from the span; a single number is returned as it is."""
    return float(stream.uniform(*_ends(setting, value, least, most)))


def drawn_whole(setting: str, value: Span, stream: np.random.Generator, *, least: float, most: float) -> int:
    """An integer from the span, both ends included."""
    low, high = _ends(setting, value, least, most)
    return int(stream.integers(int(low), int(high) + 1))


def _ends(setting: str, value: Span, least: float, most: float) -> tuple[float, float]:
    return span(setting, (value, value) if isinstance(value, int | float) else value, least=least, most=most)
