"""Registry of batchings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from levelfield.batching.base import Batching, Common
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.registry import Registry, is_file_reference
from levelfield.settings import accepted, check_settings

registry: Registry[Batching] = Registry("batching", "batchings", home="levelfield.batching")
names = registry.names
"""The names of all batchings."""
_Entry = TypeVar("_Entry", bound=type[Batching])


@dataclass(frozen=True)
class About:
    """Facts about a batching: a sentence, its full text, its settings with defaults, and its search ranges."""

    what: str
    text: str
    settings: Mapping[str, Any]
    search: Mapping[str, Any]


def describe(name: str) -> About:
    """The facts about a batching.

    >>> describe("spc").settings
    {'samples_per_class': 2, 'small': 'repeat', 'replace': False}
    """
    made = registry.get(name)
    text = "\n\n".join([_paragraphs(made)[0], *_about_settings(made)])
    common = {"labels", "batch_size", *Common.__annotations__}
    own = {key: default for key, default in (accepted(made) or {}).items() if key not in common}
    return About(registry.facts(name), text, own, dict(getattr(made, "search", {})))


def register(name: str, what: str) -> Callable[[_Entry], _Entry]:
    """Decorator: register a batching under `name`, with a sentence on what a batch contains."""

    def enter(entry: _Entry) -> _Entry:
        entry.name = name
        registry.register(name, what)(entry)
        return entry

    return enter


def _about_settings(made: Any) -> list[str]:
    """Documentation of settings from a class and its parents: paragraphs that begin with names of settings."""
    inherited = [paragraph for kind in made.__mro__ if kind is not Batching for paragraph in _paragraphs(kind)]
    return [paragraph for paragraph in inherited if re.match(r"[a-z_]+(, [a-z_]+)*: ", paragraph)]


def _paragraphs(kind: Any) -> list[str]:
    return inspect.cleandoc(kind.__doc__ or "").split(">>>")[0].strip().split("\n\n")


def maker(name: str) -> Callable[..., Batching]:
    """The class of that name, or `my_batches.py:MyBatching`."""
    return registry.get(name)


def create(name: str, labels: Sequence[int] | np.ndarray, *, batch_size: int | None, **settings: Any) -> Batching:
    """A batching by name (or `my_batches.py:MyBatching`) over `labels`.

    Args:
        name: see `names()`; a class such as `batching.SamplesPerClass` does the same with typed keywords.
        labels: (images,) integers, the class of each image.
        batch_size: images in a batch; None only for `m_per_class`.
        **settings: seed=0, batches_per_epoch=None, rank=0, world=1, and the batching's own.

    Returns:
        A `Batching`: yields the batches of an epoch as lists of positions in `labels`; usable as the `batch_sampler`
        of a torch DataLoader.

    >>> batches = create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, samples_per_class=2)
    >>> batches.plan(0).shape
    (1, 4)
    """
    make = maker(name)
    check_settings(f"batching '{name}'", settings, make)
    if batch_size is None and (accepted(make) or {}).get("batch_size", 0) is not None:
        raise BadSpecification(f"The batching '{name}' needs a batch_size; only m_per_class works without one.")
    try:
        return make(labels, batch_size=batch_size, **settings)
    except LevelfieldError:
        raise
    except Exception as error:  # user code can raise anything
        if not is_file_reference(name):
            raise
        raise BadSpecification(f"The batching '{name}' cannot be created: {type(error).__name__}: {error}") from error
