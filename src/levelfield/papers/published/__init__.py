"""Published settings and results of the papers, as data, with our names added."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from levelfield.papers.published._reported import Reported, is_about, reported
from levelfield.papers.published._tables import Line, Table, benchmarks, ceiling, papers, table, tables

__all__ = [
    "Batches",
    "Entry",
    "Line",
    "Reported",
    "Table",
    "batches",
    "benchmarks",
    "ceiling",
    "hyperparameters",
    "is_about",
    "papers",
    "reported",
    "table",
    "tables",
]


class Entry(NamedTuple):
    """Settings of one method on one dataset ("all": every dataset) in one paper."""

    method: str
    dataset: str
    paper: str
    source: str
    params: dict[str, Any]


class Batches(NamedTuple):
    """Batches that a paper uses for some methods; `batch` and `batching` as in a study file."""

    paper: str
    methods: str
    dataset: str
    batch: str
    batching: str | dict[str, Any]
    batches_per_epoch: int | None
    source: str


@cache
def hyperparameters() -> tuple[Entry, ...]:
    """All published settings, in the papers' own terms.

    >>> next(entry for entry in hyperparameters() if entry.method == "contrastive").params
    {'margin': 1.0, 'miner': 'distance_weighted', 'distance': 'euclidean'}
    """
    return tuple(Entry(**entry) for entry in entries_of("hyperparameters.json"))


@cache
def batches() -> tuple[Batches, ...]:
    """Batches of the papers.

    >>> next(entry for entry in batches() if entry.methods == "n-pair, angular").batching
    {'n_pair': {'same_image': 0.1}}
    """
    return tuple(Batches(**entry) for entry in entries_of("batches.json"))


def entries_of(name: str) -> list[dict[str, Any]]:
    """The entries of a file of this folder."""
    content = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    entries: list[dict[str, Any]] = content["entries"]
    return entries
