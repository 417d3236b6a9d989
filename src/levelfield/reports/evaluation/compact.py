"""Bytes per embedding against score: every compact form, and its difference from float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.errors import BadInput
from levelfield.evaluation.compacting import CompactScore, compact_scores, undetermined
from levelfield.evaluation.metrics.registry import parse_all
from levelfield.evaluation.search.distances import Distance
from levelfield.files.writing import finite
from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import METRICS, Scores, about, cell
from levelfield.studies.runs.finished import embed_part
from levelfield.table import Column, Table, numbers


@dataclass(frozen=True)
class CompactForms:
    """The forms, float32 first, what was left out, and the number of training images that the forms are fitted on."""

    embeddings: EmbeddingSet
    forms: list[CompactScore]
    left_out: list[str]
    fitted_on: int

    @property
    def scores(self) -> dict[str, Scores]:
        """The scores of each form by name."""
        named = [(score.form, score.result) for score in self.forms]
        return {form.name: Scores(self.embeddings, result, form.distance, form.bits) for form, result in named}

    def as_data(self) -> dict[str, Any]:
        forms = []
        for score, (name, scores) in zip(self.forms, self.scores.items(), strict=True):
            data = scores.as_data()
            for metric, interval in score.differences.items():
                difference: dict[str, Any] = {"value": interval.mean}
                if score.result.intervals:
                    difference["interval"] = {"level": interval.level, "classes": [interval.low, interval.high]}
                data["metrics"][metric]["difference"] = finite(difference)
            forms.append({"stored_as": name, **data})
        return {"compact": forms, "left_out": self.left_out}

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the table and sentences about it."""
        self._table().show(console)
        fitted = [f"Fitted on {self.fitted_on:,} training images."] if self.fitted_on else []
        difference = "Difference: from float32, paired by class."
        sentences = [*about(list(self.scores.values())), difference, *fitted, *self.left_out]
        console.print(" ".join(sentences), soft_wrap=True)
        for name, scores in self.scores.items() if signatures else ():
            for metric in scores.result:
                console.print(f"{name}: {scores.signature(metric)}", soft_wrap=True)

    def _table(self) -> Table:
        metrics = list(self.forms[0].result)
        columns = [column for metric in metrics for column in numbers(metric, "difference", group=metric)]
        rows = []
        for score, (name, scores) in zip(self.forms, self.scores.items(), strict=True):
            row = [name, f"{scores.bytes}"]
            for metric in metrics:
                row += [cell(score.result, metric), _difference(score, metric)]
            rows.append(row)
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

    train: (m, dim) embeddings of training classes, unless a run embeds its own; without them nothing is fitted.
    metrics: retrieval metrics. dims: each number of first and of whitened dimensions. distance: compares rows, except
    bits. progress: gets a stage for each form. k, settings: arguments of `levelfield.evaluate`.
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
        train, _ = embed_part(embeddings.run, "training", progress=progress)
    settings = {**settings, "metrics": metrics, "k": k}
    forms = list(compact_scores(train, embeddings.arrays, settings, dims=dims, distance=distance, progress=progress))
    if train is not None:
        lacking = undetermined([score.form.name for score in forms], embeddings.rows.shape[1], dims)
        return CompactForms(embeddings, forms, [f"Left out: {lacking}"] if lacking else [], len(train))
    reason = ": give --train-embeddings FILE."
    if embeddings.refined:
        reason = f"; the run's stored model alone cannot repeat its refinement ({embeddings.refined})."
    left_out = [f"Left out: int8, bits and whitened, which are fitted on training embeddings{reason}"]
    return CompactForms(embeddings, forms, left_out, 0)


def _difference(score: CompactScore, metric: str) -> str:
    """The difference from float32 in one metric, with its interval below."""
    if metric not in score.differences:
        return ""
    interval = score.differences[metric]
    if not score.result.intervals:
        return f"{interval.mean:+.4f}"
    ends = "-" if math.isnan(interval.low) else f"{interval.low:+.3f} to {interval.high:+.3f}"
    return f"{interval.mean:+.4f}\n{ends}"
