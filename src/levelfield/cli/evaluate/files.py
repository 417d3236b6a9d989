"""Output files of `levelfield evaluate`: JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.cli.evaluate.tables import Evaluated
from levelfield.files.writing import write_text


def as_data(one: Evaluated) -> dict[str, Any]:
    """All scores as plain data, with None for nan."""
    result = one.result
    content: dict[str, Any] = {}
    for name in result:
        content[name] = {"value": result[name], "signature": one.signature(name)}
        if name in result.intervals:
            found = result.intervals[name]
            content[name]["interval"] = {"level": found.level, "classes": [found.low, found.high]}
            if result.sample is not None:
                over = result.sample.intervals[name]
                content[name]["interval"]["all_queries"] = [over.low, over.high]
        if name in result.per_start:
            content[name]["starts"] = result.per_start[name]
    data = {
        "metrics": content,
        "queries": result.n_queries,
        "lone": result.n_lone,
        "dim": one.dim,
        "distance": one.distance,
        "bytes": one.bytes,
        "refined": one.refined or "none",
    }
    if result.sample is not None:
        data["sample"] = {"queries": len(result.sample.rows), "of": result.sample.of, "seed": result.sample.seed}
    if result.divided is not None:
        data["divided"] = asdict(result.divided)
    if one.decided is not None:
        threshold, rates, unknown = one.decided
        data["threshold"] = {
            "value": threshold.value,
            "interval": threshold.interval,
            "level": threshold.level,
            "rule": threshold.rule,
            "chosen_on": one.chosen_on,
            "signature": threshold.signature,
            "rates": {one.chosen_on: asdict(threshold.validation), "test": asdict(rates)},
            "unknowns": asdict(unknown),
        }
    plain: dict[str, Any] = finite(data)
    return plain


def write_per_class(path: Path, found: list[Evaluated]) -> None:
    """Write one line per class with counted queries: label, number of queries, mean of each retrieval metric."""

    def lines() -> Iterator[dict[str, Any]]:
        for one in found:
            means = {name: one.result.per_class(name) for name in one.result.per_query}
            shared = next(iter(means.values()))
            for place, (name, queries) in enumerate(zip(shared.classes, shared.queries, strict=True)):
                values = {metric: repr(float(each.means[place])) for metric, each in means.items()}
                yield {**_axes(one, found), "class": name, "queries": queries, **values}

    _write_lines(path, lines())


def write_per_query(path: Path, found: list[Evaluated], names: np.ndarray, paths: list[str] | None) -> None:
    """Write one line per query, in the order of the embeddings; `lone` queries have no positives."""

    def lines() -> Iterator[dict[str, Any]]:
        for one in found:
            for row, name in enumerate(names):
                where = {"path": paths[row]} if paths is not None else {}
                values = {metric: repr(float(each[row])) for metric, each in one.result.per_query.items()}
                yield {
                    **_axes(one, found),
                    "row": row,
                    **where,
                    "label": name,
                    "lone": int(one.result.lone[row]),
                    **values,
                }

    _write_lines(path, lines())


def write_neighbours(
    path: Path,
    found: list[Evaluated],
    k: int,
    names: np.ndarray,
    gallery_names: np.ndarray,
    paths: list[str] | None,
    gallery_paths: list[str] | None = None,
) -> None:
    """Write the k nearest rows of each query, nearest first; `same`: whether a row has the query's class."""

    theirs = gallery_paths or paths

    def lines() -> Iterator[dict[str, Any]]:
        for one in found:
            near = one.result.neighbours(k)
            for row, (positions, similarities) in enumerate(zip(near.positions, near.similarities, strict=True)):
                for rank, (other, similarity) in enumerate(zip(positions, similarities, strict=True), start=1):
                    where = {"path": paths[row], "neighbour_path": theirs[other]} if paths and theirs else {}
                    yield {
                        **_axes(one, found),
                        "row": row,
                        "rank": rank,
                        "neighbour": other,
                        **where,
                        "similarity": repr(float(similarity)),
                        "same": int(names[row] == gallery_names[other]),
                    }

    _write_lines(path, lines())


def _axes(one: Evaluated, found: list[Evaluated]) -> dict[str, Any]:
    refined = {"refined": one.refined or "none"} if any(each.refined for each in found) else {}
    return {**refined, "distance": one.distance, "dim": one.dim} if len(found) > 1 else {}


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    table, writer = io.StringIO(), None
    for line in lines:
        if writer is None:
            writer = csv.DictWriter(table, list(line), lineterminator="\n")
            writer.writeheader()
        writer.writerow(line)
    write_text(path, table.getvalue() or "class\n")


def finite(value: Any) -> Any:
    """Plain data with None for nan and infinity."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
