"""Scores per class and per query, and the nearest rows of each query, as CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from levelfield.files.writing import write_text
from levelfield.reports.evaluation.scores import Scores


def write_per_class(path: Path, rows: Sequence[Scores]) -> None:
    """Write one line per class with counted queries: label, number of queries, mean of each retrieval metric."""

    def lines() -> Iterator[dict[str, Any]]:
        for scores in rows:
            means = {name: scores.result.per_class(name) for name in scores.result.per_query}
            shared = next(iter(means.values()))
            for number, (name, queries) in enumerate(zip(shared.classes, shared.queries, strict=True)):
                values = {metric: repr(float(each.means[number])) for metric, each in means.items()}
                yield {**_axes(scores, rows), "class": name, "queries": queries, **values}

    _write_lines(path, lines())


def write_per_query(path: Path, rows: Sequence[Scores]) -> None:
    """Write one line per query, in the order of the embeddings; `lone` queries have no positives."""

    def lines() -> Iterator[dict[str, Any]]:
        for scores in rows:
            paths = scores.embeddings.paths
            for row, label in enumerate(scores.embeddings.labels):
                yield {
                    **_axes(scores, rows),
                    "row": row,
                    **({} if paths is None else {"path": paths[row]}),
                    "label": label,
                    "lone": int(scores.result.lone[row]),
                    **{metric: repr(float(values[row])) for metric, values in scores.result.per_query.items()},
                }

    _write_lines(path, lines())


def write_neighbours(path: Path, rows: Sequence[Scores], k: int) -> None:
    """Write the k nearest rows of each query, nearest first; `same`: whether a row has the query's class."""

    def lines() -> Iterator[dict[str, Any]]:
        for scores in rows:
            embeddings, near = scores.embeddings, scores.result.neighbours(k)
            paths, others = embeddings.paths, embeddings.gallery_paths
            for row, (positions, similarities) in enumerate(zip(near.positions, near.similarities, strict=True)):
                for rank, (other, similarity) in enumerate(zip(positions, similarities, strict=True), start=1):
                    yield {
                        **_axes(scores, rows),
                        "row": row,
                        "rank": rank,
                        "neighbour": other,
                        **({"path": paths[row], "neighbour_path": others[other]} if paths and others else {}),
                        "similarity": repr(float(similarity)),
                        "same": int(embeddings.labels[row] == embeddings.gallery_labels[other]),
                    }

    _write_lines(path, lines())


def _axes(scores: Scores, rows: Sequence[Scores]) -> dict[str, Any]:
    """What distinguishes these scores from the others in the file."""
    if len(rows) == 1:
        return {}
    refined = any(each.embeddings.refined for each in rows)
    named = {"refined": scores.embeddings.refined or "none"} if refined else {}
    return {**named, "distance": scores.distance, "dim": scores.dim}


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    table, writer = io.StringIO(), None
    for line in lines:
        if writer is None:
            writer = csv.DictWriter(table, list(line), lineterminator="\n")
            writer.writeheader()
        writer.writerow(line)
    write_text(path, table.getvalue() or "class\n")
