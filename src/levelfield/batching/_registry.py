"""Registry of batchings, and a batching as written in a study: n_pair, or {episodes: {support: 2, query: 2}}."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from levelfield.batch_layout import Layout
from levelfield.batching._base import COMMON, Batching
from levelfield.batching._groups import Labels
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.registry import Registry, is_file_reference
from levelfield.settings import accepted, check_settings

registry: Registry[Batching] = Registry("batching", "batchings", home="levelfield.batching")
names = registry.names  # the names of all batchings
_Entry = TypeVar("_Entry", bound=type[Batching])


@dataclass(frozen=True)
class BatchingFacts:
    """A batching in a sentence, its full text, its settings with defaults, and its search ranges."""

    what: str
    text: str
    settings: Mapping[str, Any]
    search: Mapping[str, Any]


def describe(name: str) -> BatchingFacts:
    """The facts about a batching.

    >>> describe("spc").settings
    {'samples_per_class': 2, 'small': 'repeat', 'replace': False}
    """
    batching: Any = registry.get(name)
    inherited = [paragraph for kind in batching.__mro__ if kind is not Batching for paragraph in _paragraphs(kind)]
    on_settings = [paragraph for paragraph in inherited if re.match(r"[a-z_]+(, [a-z_]+)*: ", paragraph)]
    settings = {key: default for key, default in (accepted(batching) or {}).items() if key not in COMMON}
    text = "\n\n".join([_paragraphs(batching)[0], *on_settings])
    return BatchingFacts(registry.facts(name), text, settings, dict(batching.search))


def register(name: str, what: str) -> Callable[[_Entry], _Entry]:
    """Decorator: register a batching under `name`, with a sentence on what a batch contains."""

    def enter(entry: _Entry) -> _Entry:
        entry.name = name
        registry.register(name, what)(entry)
        return entry

    return enter


def _paragraphs(kind: type) -> list[str]:
    """Paragraphs of the docstring before its example; those on settings begin with the names of settings."""
    return inspect.cleandoc(kind.__doc__ or "").split(">>>")[0].strip().split("\n\n")


def create(name: str, labels: Labels, *, batch_size: int | None, **settings: Any) -> Batching:
    """A batching by name (or `my_batches.py:MyBatching`) over `labels`.

    Args:
        name: see `names()`; a class such as `batching.SamplesPerClass` does the same with typed keywords.
        labels: (images,) integers, the class of each image.
        batch_size: images in a batch; None only for `m_per_class`.
        **settings: seed=0, batches_per_epoch=None, and those of the batching.

    Returns:
        A `Batching`: yields the batches of an epoch as lists of positions in `labels`; usable as the `batch_sampler`
        of a torch DataLoader.

    >>> create("spc", [0, 0, 1, 1, 2, 2], batch_size=4, samples_per_class=2).plan(0).shape
    (1, 4)
    """
    make = registry.get(name)
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


GIVEN = {  # set by the run for every batching
    "labels": "the labels are those of the training images",
    "batch_size": "it follows from 'batch', e.g. batch: 25x4",
    "seed": "the run sets it",
}


class Choice(NamedTuple):
    """A batching's name, and its settings beyond the layout of the batch.

    >>> chosen = Choice.of({"episodes": {"support": 2, "query": 2}}, Layout.parse("6x4"))
    >>> print(chosen)
    episodes (support=2, query=2)
    >>> print(Choice.of(None, Layout.parse("6x4")))
    spc
    """

    name: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, written: str | Mapping[str, Any] | None, layout: Layout | None = None) -> Choice:
        """Parse the entry of a study; without one, choose the batching for the layout."""
        if written is None and layout is not None:
            return cls(layout.batching, {})
        if isinstance(written, str):
            return cls(written, {})
        if not isinstance(written, Mapping) or len(written) != 1:
            usage = "a name, e.g. n_pair, or a name with settings, e.g. {episodes: {support: 2, query: 2}}"
            raise BadSpecification(f"'batching' is {written!r}; it must be {usage}.")
        ((name, settings),) = written.items()
        if not isinstance(settings, Mapping | None):
            raise BadSpecification(f"The settings of batching '{name}' are {settings!r}; use pairs of key and value.")
        return cls(str(name), {str(key): value for key, value in (settings or {}).items()})

    def make(self, labels: Labels, layout: Layout, **common: Any) -> Batching:
        """Create this batching over `labels`, with the parts of the layout that apply. common: such as `seed`.

        >>> Choice("n_pair", {}).make([0, 0, 1, 1], Layout.parse("2x2")).plan(0).shape
        (1, 4)
        """
        self.check()
        takes = accepted(registry.get(self.name)) or {}
        shape = {key: value for key, value in layout.settings.items() if key in takes}
        return create(self.name, labels, batch_size=layout.batch_size, **{**shape, **common, **self.settings})

    def check(self) -> None:
        for key in self.settings:
            if key in GIVEN:
                raise BadSpecification(f"Batching '{self.name}' cannot set '{key}' here: {GIVEN[key]}.")
        check_settings(f"batching '{self.name}'", self.settings, registry.get(self.name))

    def __str__(self) -> str:
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name} ({settings})" if settings else self.name
