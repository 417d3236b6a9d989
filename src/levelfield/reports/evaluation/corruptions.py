"""The scores of a run on corrupted test images, and the drop from clean ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import METRICS, Scores
from levelfield.studies.runs.corrupted_scores import evaluate_corrupted
from levelfield.table import Table, numbers


@dataclass(frozen=True)
class CorruptedScores:
    """Scores on clean and on corrupted images (`corrupted[corruption][metric]`), and the definition of each metric."""

    clean: dict[str, float]
    corrupted: dict[str, dict[str, float]]
    signatures: dict[str, str]

    def drop(self, corruption: str, metric: str) -> float:
        return self.clean[metric] - self.corrupted[corruption][metric]

    def mean_drop(self, metric: str) -> float:
        return float(np.mean([self.drop(name, metric) for name in self.corrupted]))

    def as_data(self) -> dict[str, Any]:
        return {
            "clean": self.clean,
            "corrupted": {
                name: {metric: {"value": value, "drop": self.drop(name, metric)} for metric, value in values.items()}
                for name, values in self.corrupted.items()
            },
            "mean_drop": {metric: self.mean_drop(metric) for metric in self.clean},
            "signatures": self.signatures,
        }

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the table and what a drop is."""
        self._table().show(console)
        console.print("Drop: clean minus corrupted. One draw per image, the same for every run.")
        for signature in self.signatures.values() if signatures else ():
            console.print(signature, soft_wrap=True)

    def _table(self) -> Table:
        metrics = list(self.clean)
        columns = [column for metric in metrics for column in numbers(metric, "drop", group=metric)]
        rows = [["clean"], *([name] for name in self.corrupted), ["mean drop"]]
        for metric in metrics:
            rows[0] += [f"{self.clean[metric]:.4f}", ""]
            for row, (name, values) in zip(rows[1:-1], self.corrupted.items(), strict=True):
                row += [f"{values[metric]:.4f}", f"{self.drop(name, metric):+.4f}"]
            rows[-1] += ["", f"{self.mean_drop(metric):+.4f}"]
        return Table(["test images", *columns], rows, ruled=[len(self.corrupted)])


def evaluate_corruptions(
    run: Path,
    names: Sequence[str],
    *,
    metrics: Sequence[str] = METRICS,
    distance: str = "cosine",
    progress: Progress = SILENT,
    **settings: Any,
) -> CorruptedScores:
    """Evaluate a run on its test images, clean and under each corruption. Embeddings are kept in the run folder.

    settings: other arguments of `levelfield.evaluate`.
    """
    settings = {**settings, "distance": distance, "ci": None}
    results = evaluate_corrupted(run, names, metrics=metrics, progress=progress, **settings)
    values = {name: {metric: float(result[metric]) for metric in result} for name, result in results.items()}
    embeddings = EmbeddingSet.of_run(run)
    clean = Scores(embeddings, results["clean"], distance, embeddings.bits)
    return CorruptedScores(values.pop("clean"), values, {metric: clean.signature(metric) for metric in clean.result})
