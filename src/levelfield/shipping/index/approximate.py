"""Approximate search by a graph of neighbours (HNSW) from usearch or faiss, and what it loses against exact search."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import Damaged, MissingExtra, unknown
from levelfield.files.writing import cannot_write, default_cache_folder, temporary_folder
from levelfield.shipping.index.exact import BINARY, Positions, Rows, Stored, nearest, ordered, packed

GRAPHS = "graphs"  # the folder in the cache
LIBRARIES = {"usearch": "usearch.index", "faiss": "faiss"}  # and the module of each
_LINKS = 16  # of a row in the graph; Malkov and Yashunin 2018 recommend 5 to 48
_WHEN_BUILDING, _WHEN_SEARCHING = 200, 128  # candidates that are compared: more find more, and take longer
_QUERIES, _NEAREST = 1000, 10  # of the measurement
_REASON = re.compile(r"\(([^()]+)\)$")  # the system's, after a function and line of faiss

_log = logging.getLogger(__name__)

Search = Callable[[Rows, int], Positions]
"""Unit rows of queries and k to positions (queries, k); -1 where fewer were found."""


def check_library(name: str) -> None:
    """Refuse an unknown library, or one that is not installed."""
    if name not in LIBRARIES:
        raise unknown("library for approximate search", name, LIBRARIES)
    if importlib.util.find_spec(name) is None:
        raise MissingExtra(
            f'Approximate search with {name} needs a package: pip install "levelfield[{name}]". '
            "Without --approximate the search is exact and needs none."
        )


def graph_of(library: str, stored: Stored) -> Search:
    """The search in the graph of these rows: from the user's cache, or built now and stored there.

    The graph is no part of an index, because both libraries crash on changed bytes: a file of somebody else is never
    opened.
    """
    path = cached(library, stored)
    if path.is_file():
        try:
            return open_graph(library, stored, path)
        except Damaged as error:
            _log.warning("%s It is built again.", error)
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path) as scratch:
        write_graph(library, stored, scratch / path.name)
        (scratch / path.name).replace(path)
    return open_graph(library, stored, path)


def write_graph(library: str, stored: Stored, path: Path) -> None:
    """Build the graph of all rows and write it."""
    module, values, binary = _module(library), np.ascontiguousarray(stored.values), stored.codes == BINARY
    bits = 8 * values.shape[1] if binary else stored.dim  # packed bits fill whole bytes
    if library == "usearch":
        kind = {"metric": "hamming", "dtype": "b1"} if binary else {"metric": "ip", "dtype": "f32"}
        graph = module.Index(ndim=bits, connectivity=_LINKS, expansion_add=_WHEN_BUILDING, **kind)
        graph.add(np.arange(len(values), dtype=np.uint64), values)
        with _saving(path):
            graph.save(str(path))
        return
    if binary:
        graph = module.IndexBinaryHNSW(bits, _LINKS)
    else:
        graph = module.IndexHNSWFlat(bits, _LINKS, module.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = _WHEN_BUILDING
    graph.add(values)
    with _saving(path):
        (module.write_index_binary if binary else module.write_index)(graph, str(path))


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError) as error:  # both libraries raise RuntimeErrors, also for a full disk
        reason = _REASON.search(str(error))
        raise cannot_write(path, OSError(reason[1]) if reason else error) from error


def open_graph(library: str, stored: Stored, path: Path) -> Search:
    """The search in a written graph."""
    module = _module(library)
    try:
        if library == "usearch":
            graph = module.Index.restore(str(path))
            if graph is None:
                raise ValueError("it is not a graph of usearch")
            graph.expansion_search, count = _WHEN_SEARCHING, len(graph)
        else:
            graph = (module.read_index_binary if stored.codes == BINARY else module.read_index)(str(path))
            graph.hnsw.efSearch, count = _WHEN_SEARCHING, graph.ntotal
    except (RuntimeError, ValueError, OSError) as error:
        raise Damaged(f"{path} cannot be opened by {library}: {str(error).splitlines()[0]}") from error
    if count != len(stored):
        raise Damaged(f"{path} has {count:,} rows, but the index has {len(stored):,}.")

    def search(queries: Rows, k: int) -> Positions:
        rows = packed(queries, stored.codes)
        if library == "faiss":
            return np.asarray(graph.search(rows, k)[1], np.int64)
        # for a single query usearch returns an object of another kind
        matches = graph.search(np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows, k)
        keys, counts = np.asarray(matches.keys).astype(np.int64), np.asarray(matches.counts)
        return np.where(np.arange(keys.shape[1]) < counts[:, None], keys, -1)[: len(rows)]

    return search


def lost(search: Search, stored: Stored) -> dict[str, float | int]:
    """Recall of the exact neighbours: up to 1,000 rows are searched among the others, exactly and approximately.

    recall@K: share of the K nearest rows that the approximate search finds among its first K. A row that is as near as
    the K-th exact one counts as found.
    """
    sample = np.unique(np.linspace(0, len(stored) - 1, _QUERIES).astype(np.int64))
    queries, near = stored.part(sample), min(_NEAREST, len(stored) - 1)
    if near < 1:
        return {"queries": 0}
    exact = _others(sample, *nearest(stored, queries, near + 1))
    approximate = _others(sample, *ordered(stored, queries, search(queries, near + 1)))
    recalls = {f"recall@{k}": float((approximate[:, :k] >= exact[:, k - 1 : k]).mean()) for k in sorted({1, near})}
    return {"queries": len(sample), **recalls}


def _others(sample: Positions, positions: Positions, cosine: Any) -> Any:
    """Cosines without that of the query itself; of a query that was not found, without the last one."""
    itself = positions == sample[:, None]
    itself[~itself.any(axis=1), -1] = True
    return cosine[~itself].reshape(len(cosine), -1)


def cached(library: str, stored: Stored) -> Path:
    """Where the graph of these rows is stored."""
    digest = hashlib.blake2b(np.ascontiguousarray(stored.values).data, digest_size=16).hexdigest()
    return default_cache_folder() / GRAPHS / f"{digest}-{stored.codes}-{stored.dim}.{library}"


def _module(library: str) -> Any:
    check_library(library)
    return importlib.import_module(LIBRARIES[library])
