"""Published settings and results of the papers, as data, with our names added."""

from __future__ import annotations

from typing import Any

from levelfield.papers.published._reported import Reported, is_about, reported
from levelfield.papers.published._tables import Line, PaperTable, benchmarks, ceiling, entries_of, papers, table, tables

__all__ = [
    "Line", "PaperTable", "Reported", "batches", "benchmarks", "ceiling", "hyperparameters", "is_about",
    "papers", "reported", "table", "tables",
]  # fmt: skip


def hyperparameters() -> list[dict[str, Any]]:
    """All published settings, in the papers' own terms; dataset "all": every dataset.

    >>> entry = next(entry for entry in hyperparameters() if entry["method"] == "contrastive")
    >>> list(entry), entry["params"]["margin"]
    (['method', 'dataset', 'paper', 'source', 'params'], 1.0)
    """
    return entries_of("hyperparameters.json")


def batches() -> list[dict[str, Any]]:
    """Batches that papers use for some methods; `batch` and `batching` as in a study file.

    >>> next(entry for entry in batches() if entry["methods"] == "n-pair, angular")["batching"]
    {'n_pair': {'same_image': 0.1}}
    """
    return entries_of("batches.json")
