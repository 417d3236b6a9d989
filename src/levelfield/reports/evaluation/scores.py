"""Scores of a run or of arrays: one row per refinement, distance and number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.embedder.devices import searched_on
from levelfield.evaluation import Evaluation, Representation, Signature, evaluate
from levelfield.evaluation.search.distances import Distance
from levelfield.evaluation.statistics.crossed import MIN_CLASSES
from levelfield.evaluation.statistics.intervals import ends
from levelfield.files.writing import finite, write_text
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.table import Column, Table, numbers
from levelfield.wording import plural

METRICS = ("recall@1", "map@r")  # default of compact forms and corrupted images
_REFINED = 24  # columns of the name of a refinement before it is wrapped


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of embeddings under one distance.

    bits: per dimension, if it is known: binary codes are also stored in arrays of 32 bits.
    """

    embeddings: EmbeddingSet
    result: Evaluation
    distance: str
    bits: int | None = None

    @property
    def dim(self) -> int:
        return self._representation.dim

    @property
    def bytes(self) -> int:
        """Size of one embedding."""
        return math.ceil(self.dim * self._representation.bits / 8)

    @property
    def _representation(self) -> Representation:
        return self._declared(next(iter(self.result.signatures.values()))).representation

    def signature(self, metric: str) -> str:
        return str(self._declared(self.result.signature(metric)))

    def _declared(self, signature: Signature) -> Signature:
        measured = signature.representation.bits  # always 1 under hamming
        bits = measured if self.bits is None else min(self.bits, measured)
        embeddings = self.embeddings
        return signature.declared(refined=embeddings.refined or "none", ensemble=embeddings.models, bits=bits)

    def as_data(self) -> dict[str, Any]:
        """All scores as plain data, with None for NaN."""
        result = self.result
        data: dict[str, Any] = {
            "metrics": {},
            "queries": result.n_queries,
            "lone": result.n_lone,
            "dim": self.dim,
            "distance": self.distance,
            "bytes": self.bytes,
            "refined": self.embeddings.refined or "none",
        }
        for name in result:
            metric: dict[str, Any] = {"value": result[name], "signature": self.signature(name)}
            if name in result.intervals:
                interval = result.intervals[name]
                metric["interval"] = {"level": interval.level, "classes": [interval.low, interval.high]}
                if result.sample is not None:
                    all_queries = result.sample.intervals[name]
                    metric["interval"]["all_queries"] = [all_queries.low, all_queries.high]
            if name in result.per_start:
                metric["starts"] = result.per_start[name]
            data["metrics"][name] = metric
        if result.sample is not None:
            data["sample"] = {"queries": len(result.sample.rows), "of": result.sample.of, "seed": result.sample.seed}
        if result.divided is not None:
            data["divided"] = asdict(result.divided)
        return dict(finite(data))


@dataclass(frozen=True)
class ScoreTable:
    """The scores of one set of images, as tables, data and files."""

    rows: list[Scores]

    def as_data(self) -> dict[str, Any] | list[dict[str, Any]]:
        data = [scores.as_data() for scores in self.rows]
        return data[0] if len(data) == 1 else data

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the table and sentences about it."""
        table = _metric_table(self.rows[0].result) if len(self.rows) == 1 else _representation_table(self.rows)
        table.show(console)
        console.print(" ".join(about(self.rows)), soft_wrap=True)
        for scores in self.rows if signatures else ():
            for name in scores.result:
                console.print(scores.signature(name), soft_wrap=True)

    def write_classes(self, path: Path) -> None:
        """CSV with a line per class with counted queries: their number, and their mean of each retrieval metric."""

        def lines(scores: Scores) -> Iterator[dict[str, Any]]:
            means = {name: scores.result.per_class(name) for name in scores.result.per_query}
            first = next(iter(means.values()))
            for number, (name, queries) in enumerate(zip(first.classes, first.queries, strict=True)):
                values = {metric: float(each.means[number]) for metric, each in means.items()}
                yield {"class": name, "queries": queries, **values}

        self._write(path, lines)

    def write_queries(self, path: Path) -> None:
        """CSV with a line per query, in the order of the embeddings; `lone` queries have no positives."""

        def lines(scores: Scores) -> Iterator[dict[str, Any]]:
            paths = scores.embeddings.paths
            for row, label in enumerate(scores.embeddings.labels):
                line: dict[str, Any] = {"row": row, **({} if paths is None else {"path": paths[row]})}
                line |= {"label": label, "lone": int(scores.result.lone[row])}
                yield line | {metric: float(values[row]) for metric, values in scores.result.per_query.items()}

        self._write(path, lines)

    def write_neighbours(self, path: Path, k: int) -> None:
        """CSV with the k nearest rows of each query, nearest first; `same`: whether a row has the query's class."""

        def lines(scores: Scores) -> Iterator[dict[str, Any]]:
            embeddings, near = scores.embeddings, scores.result.neighbours(k)
            paths, others = embeddings.paths, embeddings.gallery_paths
            for row, (positions, similarities) in enumerate(zip(near.positions, near.similarities, strict=True)):
                for rank, (other, similarity) in enumerate(zip(positions, similarities, strict=True), start=1):
                    line = {"row": row, "rank": rank, "neighbour": other}
                    line |= {"path": paths[row], "neighbour_path": others[other]} if paths and others else {}
                    same = int(embeddings.labels[row] == embeddings.gallery_labels[other])
                    yield line | {"similarity": float(similarity), "same": same}

        self._write(path, lines)

    def _write(self, path: Path, lines: Callable[[Scores], Iterator[dict[str, Any]]]) -> None:
        """Write the lines of each row below the names of their values, after what distinguishes the rows."""
        columns, rows = ["class"], []
        refined = any(scores.embeddings.refined for scores in self.rows)
        for scores in self.rows:
            axes: dict[str, Any] = {"refined": scores.embeddings.refined or "none"} if refined else {}
            axes |= {"distance": scores.distance, "dim": scores.dim}
            for line in lines(scores):
                full = line if len(self.rows) == 1 else axes | line
                columns = list(full)
                rows.append(list(full.values()))
        write_text(path, Table(columns, rows).csv(digits=None))


def evaluate_each(
    sets: Sequence[EmbeddingSet],
    *,
    distances: Sequence[Distance] = ("cosine",),
    dims: Sequence[int | None] = (None,),
    device: str = "cpu",
    progress: Progress = SILENT,
    **settings: Any,
) -> ScoreTable:
    """Evaluate sets of embeddings of the same images under every distance, with every number of leading dimensions.

    device: searches on it if it is a GPU. settings: other arguments of `levelfield.evaluate`.
    """
    rows = []
    for embeddings, distance, dim in product(sets, distances, dims):
        arguments = {**searched_on(device, embeddings.arrays), **settings}
        result = evaluate(**arguments, dim=dim, distance=distance, progress=progress)
        rows.append(Scores(embeddings, result, distance, embeddings.bits))
    return ScoreTable(rows)


def _metric_table(result: Evaluation) -> Table:
    """One row per metric."""
    heads = ["value"]
    if result.intervals:
        level = f"{100 * next(iter(result.intervals.values())).level:g} %"
        heads += [f"{level} over classes", *([f"{level}, all queries"] if result.sample else [])]
    rows = []
    for name, value in result.items():
        cells = [f"{value:.4f}"]
        if len(result.per_start.get(name, ())) > 1:
            cells = [f"{value:.4f} ± {result.spread[name]:.4f}"]
        if name in result.intervals:
            intervals = [result.intervals[name], *([result.sample.intervals[name]] if result.sample else [])]
            cells += [span(interval.low, interval.high) for interval in intervals]
        rows.append([name, *cells, *[""] * (len(heads) - len(cells))])
    return Table(["metric", *numbers(*heads)], rows)


def _representation_table(rows: list[Scores]) -> Table:
    """One row per refinement, distance and number of dimensions."""
    columns: list[str | Column] = ["distance", *numbers("dim", "bytes")]
    cells = [[scores.distance, f"{scores.dim}", f"{scores.bytes}"] for scores in rows]
    if any(scores.embeddings.refined for scores in rows):
        columns = [Column("refined", width=_REFINED), *columns]
        cells = [[scores.embeddings.refined or "no", *row] for scores, row in zip(rows, cells, strict=True)]
    metrics = [Column(name, right=True, group=name) for name in rows[0].result]
    for scores, row in zip(rows, cells, strict=True):
        row.extend(cell(scores.result, name) for name in scores.result)
    return Table([*columns, *metrics], cells, keys=len(columns))


def cell(result: Evaluation, name: str) -> str:
    """A score, and its interval below."""
    if name not in result.intervals:
        return f"{result[name]:.4f}"
    low, high = ends(result.intervals[name])
    return f"{result[name]:.4f}\n" + ("-" if math.isnan(low) else f"{low:.3f}-{high:.3f}")


def about(rows: Sequence[Scores]) -> list[str]:
    """Sentences about the queries, the sample, the memory limit, refinements and intervals."""
    result = rows[0].result
    classes = len(np.unique(result.query_codes))
    representation = f", {rows[0].distance}, {rows[0].dim} dimensions" if len(rows) == 1 else ""
    sentences = [f"{result.n_queries:,} queries of {classes:,} classes{representation}."]
    if (sample := result.sample) is not None:
        gallery = next(iter(result.signatures.values())).definition.gallery
        sentences.append(
            f"SAMPLE: a random {len(sample.rows):,} of {sample.of:,} queries (seed {sample.seed}), "
            f"each searched in all {gallery:,} rows."
        )
        sentences += ["All queries: the interval of the score of all of them."] if sample.intervals else []
    if (divided := result.divided) is not None:
        limit = f"{divided.memory / 10**9:.3g} GB" if divided.memory >= 10**9 else f"{divided.memory / 10**6:.3g} MB"
        workers = "" if divided.workers == 1 else f" in each of {divided.workers} processes"
        sentences.append(
            f"Memory limit {limit} (beyond the program itself): at most {divided.queries:,} queries "
            f"and {divided.gallery:,} gallery rows at a time{workers}."
        )
    if refined := list(dict.fromkeys(scores.embeddings.refined for scores in rows if scores.embeddings.refined)):
        sentences.append(
            f"DEVIATION, refined: {', '.join(refined)}. The embedding of an image then depends on the other test "
            "images, and costs a pass through the message-passing network."
        )
    if result.n_lone:
        single, several = ("counts as 0", "count as 0") if result.counted.all() else ("does not count", "do not count")
        has, have = f"of them has no positive and {single}.", f"of them have no positive and {several}."
        sentences.append(plural(result.n_lone, has, have))
    if result.intervals:
        sentences.append("Intervals: over other classes of the same kind.")
        sentences += [f"They need at least {MIN_CLASSES} classes."] if classes < MIN_CLASSES else []
    starts = max(map(len, result.per_start.values()), default=0)
    return sentences + ([f"±: standard deviation over {starts} k-means starts."] if starts > 1 else [])


def span(low: float, high: float, digits: int = 4) -> str:
    """An interval in words; `-` if it is not known."""
    return "-" if math.isnan(low) else f"{low:.{digits}f} to {high:.{digits}f}"
