"""The scores of a run on corrupted test images, and the drop from clean ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.progress import SILENT, Progress
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import Scores
from levelfield.studies.runs.corrupted_scores import Drops, evaluate_corrupted
from levelfield.table import Table, numbers

METRICS = ("recall@1", "map@r")  # default


@dataclass(frozen=True)
class CorruptedScores:
    """Scores on clean and corrupted images, and the definition of each metric."""

    drops: Drops
    signatures: dict[str, str]

    def as_data(self) -> dict[str, Any]:
        drops = self.drops
        return {
            "clean": drops.clean,
            "corrupted": {
                name: {metric: {"value": value, "drop": drops.drop(name, metric)} for metric, value in values.items()}
                for name, values in drops.corrupted.items()
            },
            "mean_drop": {metric: drops.mean_drop(metric) for metric in drops.clean},
            "signatures": self.signatures,
        }

    def show(self, console: Console, *, signatures: bool = False) -> None:
        """Print the table and what a drop is."""
        self._table().show(console)
        console.print("Drop: clean minus corrupted. One draw per image, the same for every run.")
        for signature in self.signatures.values() if signatures else ():
            console.print(signature, soft_wrap=True)

    def _table(self) -> Table:
        drops, metrics = self.drops, list(self.drops.clean)
        columns = [column for metric in metrics for column in numbers(metric, "drop", group=metric)]
        rows = [["clean"], *([name] for name in drops.corrupted), ["mean drop"]]
        for metric in metrics:
            rows[0] += [f"{drops.clean[metric]:.4f}", ""]
            for row, (name, values) in zip(rows[1:-1], drops.corrupted.items(), strict=True):
                row += [f"{values[metric]:.4f}", f"{drops.drop(name, metric):+.4f}"]
            rows[-1] += ["", f"{drops.mean_drop(metric):+.4f}"]
        return Table(["test images", *columns], rows, ruled=[len(drops.corrupted)])


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
    drops, results = evaluate_corrupted(run, names, metrics=metrics, progress=progress, **settings)
    embeddings = EmbeddingSet.of_run(run)
    clean = Scores(embeddings, results["clean"], distance, embeddings.bits)
    return CorruptedScores(drops, {metric: clean.signature(metric) for metric in clean.result})
