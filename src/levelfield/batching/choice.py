"""A batching as written in a study: `n_pair`, or `episodes: {support: 2, query: 2}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

from levelfield.batch_layout import Layout
from levelfield.batching._registry import create, maker
from levelfield.batching.base import Batching, Common, Labels
from levelfield.errors import BadSpecification, nearest
from levelfield.settings import accepted

GIVEN = {  # set by the run for every batching
    "labels": "the labels are those of the training images",
    "batch_size": "it follows from 'batch', e.g. batch: 25x4",
    "seed": "the run sets it",
    "rank": "it follows from the processes of the run",
    "world": "it follows from the processes of the run",
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
        if written is None:
            assert layout is not None  # neither a batching nor a layout is given
            return cls(layout.batching, {})
        if isinstance(written, str):
            return cls(written, {})
        if not isinstance(written, Mapping) or len(written) != 1:
            raise BadSpecification(
                f"'batching' is {written!r}; it must be a name, e.g. n_pair, or a name with "
                "settings, e.g. {episodes: {support: 2, query: 2}}."
            )
        ((name, settings),) = written.items()
        if not isinstance(settings, Mapping | None):
            raise BadSpecification(
                f"The settings of batching '{name}' are {settings!r}; they must be pairs of key and value."
            )
        return cls(str(name), {str(key): value for key, value in (settings or {}).items()})

    def make(self, labels: Labels, layout: Layout, **common: Unpack[Common]) -> Batching:
        """Create this batching over `labels`, with the parts of the layout that apply.

        >>> Choice("n_pair", {}).make([0, 0, 1, 1], Layout.parse("2x2")).plan(0).shape
        (1, 4)
        """
        self.check()
        takes = accepted(maker(self.name)) or {}
        shape = {key: value for key, value in layout.settings.items() if key in takes}
        return create(self.name, labels, batch_size=layout.batch_size, **{**shape, **common, **self.settings})

    def check(self) -> None:
        """Refuse an unknown name or setting."""
        takes = [key for key in accepted(maker(self.name)) or {} if key not in GIVEN]
        for key in self.settings:
            if key in GIVEN:
                raise BadSpecification(f"Batching '{self.name}' cannot set '{key}' here: {GIVEN[key]}.")
            if key not in takes:
                close = nearest(key, takes)
                hint = f"Did you mean '{close}'?" if close else f"It takes: {', '.join(takes) or 'nothing'}."
                raise BadSpecification(f"The batching '{self.name}' has no setting '{key}'. {hint}")

    def __str__(self) -> str:
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name} ({settings})" if settings else self.name
