"""Bytes per embedding against score: every compact form, and its difference from float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.errors import BadInput
from levelfield.evaluation import Interval
from levelfield.evaluation.compacting import compact_scores, undetermined
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.search.distances import Distance
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import Scores, about, cell, finite
from levelfield.table import Column, Table, numbers

METRICS = ("recall@1", "map@r")  # default


@dataclass(frozen=True)
class CompactForm:
    """The scores of one compact form, and their differences from float32 (none for float32 itself)."""

    name: str
    scores: Scores
    differences: dict[str, Interval]

    def as_data(self) -> dict[str, Any]:
        data = self.scores.as_data()
        for metric, interval in self.differences.items():
            difference: dict[str, Any] = {"value": interval.mean}
            if self.scores.result.intervals:
                difference["interval"] = {"level": interval.level, "classes": [interval.low, interval.high]}
            data["metrics"][metric]["difference"] = finite(difference)
        return {"stored_as": self.name, **data}

    def difference(self, metric: str) -> str:
        """The difference in one metric as text, with its interval below."""
        if metric not in self.differences:
            return ""
        interval = self.differences[metric]
        if not self.scores.result.intervals:
            return f"{interval.mean:+.4f}"
        ends = "-" if math.isnan(interval.low) else f"{interval.low:+.3f} to {interval.high:+.3f}"
        return f"{interval.mean:+.4f}\n{ends}"


@dataclass(frozen=True)
class CompactForms:
    """The forms, float32 first, what was left out, and the number of training images that the forms are fitted on."""

    forms: list[CompactForm]
    left_out: list[str]
    fitted_on: int

    def as_data(self) -> dict[str, Any]:
        return {"compact": [form.as_data() for form in self.forms], "left_out": self.left_out}

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the table and sentences about it."""
        self._table().show(console)
        fitted = [f"Fitted on {self.fitted_on:,} training images."] if self.fitted_on else []
        difference = "Difference: from float32, paired by class."
        sentences = [*about([form.scores for form in self.forms]), difference, *fitted, *self.left_out]
        console.print(" ".join(sentences), soft_wrap=True)
        for form in self.forms if signatures else ():
            for metric in form.scores.result:
                console.print(f"{form.name}: {form.scores.signature(metric)}", soft_wrap=True)

    def _table(self) -> Table:
        metrics = list(self.forms[0].scores.result)
        columns = [column for metric in metrics for column in numbers(metric, "difference", group=metric)]
        rows = []
        for form in self.forms:
            scores = [(cell(form.scores.result, metric), form.difference(metric)) for metric in metrics]
            rows.append([form.name, f"{form.scores.bytes}", *(text for pair in scores for text in pair)])
        return Table(["stored as", Column("bytes", right=True), *columns], rows, keys=2)


def compare_compact(
    embeddings: EmbeddingSet,
    train: np.ndarray | None = None,
    *,
    metrics: Sequence[str] = METRICS,
    k: Sequence[int] = (1, 2, 4, 8),
    dims: Sequence[int] | None = None,
    distance: Distance = "cosine",
    progress: Progress = SILENT,
    **settings: Any,
) -> CompactForms:
    """Evaluate float32, float16, int8, bits, first and whitened dimensions.

    Args:
        embeddings: of a run, which embeds its own training classes, or of files.
        train: (m, dim) embeddings of training classes of other embeddings; without them nothing is fitted.
        metrics: retrieval metrics.
        k: the K of metrics without a number.
        dims: each number of first and of whitened dimensions.
        distance: compares rows, except bits.
        progress: gets a stage for each form.
        settings: other arguments of `levelfield.evaluate`.
    """
    if distance == "hamming":
        raise BadInput("Compact forms need a distance other than hamming: bits are a row of the table.")
    if embeddings.bits == 1:
        raise BadInput(
            f"The embeddings of {embeddings.run} are binary codes, one bit per number: there is nothing to compact. "
            "For fewer bits use fewer dimensions: levelfield evaluate RUN --dim."
        )
    for metric in parse_all(metrics, k=k):
        if metric.kind != "retrieval":
            raise BadInput(f"Compact forms are compared by retrieval metrics, such as recall@1; not '{metric.name}'.")
    if embeddings.run is not None and not embeddings.refined:
        train = embeddings.other_classes("training", progress=progress)[0]
    settings = {**settings, "metrics": metrics, "k": k}
    scored = compact_scores(train, embeddings.arrays, settings, dims=dims, distance=distance, progress=progress)
    forms = [
        CompactForm(one.form.name, Scores(embeddings, one.result, one.form.distance, one.form.bits), one.differences)
        for one in scored
    ]
    left_out = _left_out(embeddings, train, [form.name for form in forms], dims)
    return CompactForms(forms, left_out, 0 if train is None else len(train))


def _left_out(
    embeddings: EmbeddingSet, train: np.ndarray | None, names: list[str], dims: Sequence[int] | None
) -> list[str]:
    if train is not None:
        lacking = undetermined(names, embeddings.rows.shape[1], dims)
        return [f"Left out: {lacking}"] if lacking else []
    reason = ": give --train-embeddings FILE."
    if embeddings.refined:
        reason = f"; the run's stored model alone cannot repeat its refinement ({embeddings.refined})."
    return [f"Left out: int8, bits and whitened, which are fitted on training embeddings{reason}"]
