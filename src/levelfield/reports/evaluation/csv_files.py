"""Scores per class and per query, and the nearest rows of each query, as CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from levelfield.files.writing import write_text
from levelfield.reports.evaluation.scores import Scores
from levelfield.table import Table


def per_class(rows: Sequence[Scores]) -> Iterator[dict[str, Any]]:
    """One line per class with counted queries: label, number of queries, mean of each retrieval metric."""
    for scores in rows:
        means = {name: scores.result.per_class(name) for name in scores.result.per_query}
        shared = next(iter(means.values()))
        for number, (name, queries) in enumerate(zip(shared.classes, shared.queries, strict=True)):
            values = {metric: float(each.means[number]) for metric, each in means.items()}
            yield {**_axes(scores, rows), "class": name, "queries": queries, **values}


def per_query(rows: Sequence[Scores]) -> Iterator[dict[str, Any]]:
    """One line per query, in the order of the embeddings; `lone` queries have no positives."""
    for scores in rows:
        paths = scores.embeddings.paths
        for row, label in enumerate(scores.embeddings.labels):
            line = {**_axes(scores, rows), "row": row, **({} if paths is None else {"path": paths[row]})}
            line |= {"label": label, "lone": int(scores.result.lone[row])}
            yield line | {metric: float(values[row]) for metric, values in scores.result.per_query.items()}


def neighbours(rows: Sequence[Scores], k: int) -> Iterator[dict[str, Any]]:
    """The k nearest rows of each query, nearest first; `same`: whether a row has the query's class."""
    for scores in rows:
        embeddings, near = scores.embeddings, scores.result.neighbours(k)
        paths, others = embeddings.paths, embeddings.gallery_paths
        for row, (positions, similarities) in enumerate(zip(near.positions, near.similarities, strict=True)):
            for rank, (other, similarity) in enumerate(zip(positions, similarities, strict=True), start=1):
                line = {**_axes(scores, rows), "row": row, "rank": rank, "neighbour": other}
                line |= {"path": paths[row], "neighbour_path": others[other]} if paths and others else {}
                same = int(embeddings.labels[row] == embeddings.gallery_labels[other])
                yield line | {"similarity": float(similarity), "same": same}


def _axes(scores: Scores, rows: Sequence[Scores]) -> dict[str, Any]:
    """What distinguishes these scores from the others in the file."""
    if len(rows) == 1:
        return {}
    refined = any(each.embeddings.refined for each in rows)
    named = {"refined": scores.embeddings.refined or "none"} if refined else {}
    return {**named, "distance": scores.distance, "dim": scores.dim}


def write(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    """Write the lines below the names of their values."""
    columns, rows = ["class"], []
    for line in lines:
        columns = list(line)
        rows.append(list(line.values()))
    write_text(path, Table(columns, rows).csv(digits=None))
