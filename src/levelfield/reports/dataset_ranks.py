"""Methods ranked over several datasets: Friedman's test, Nemenyi's critical difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.evaluation.statistics.friedman import ALPHA, Ranking, rank, worse_methods
from levelfield.files.writing import write_json
from levelfield.studies.leaderboard.across import Across, across
from levelfield.table import Column, Table, numbers

_FEW = 10  # Demsar 2006: with fewer datasets the chi-square approximation is rough


@dataclass(frozen=True)
class DatasetRanks:
    """The scores of methods on datasets, and their ranking."""

    scores: Across
    ranking: Ranking

    def as_data(self) -> dict[str, Any]:
        apart = dict(worse_methods(self.ranking)) if self.ranking.differ else {}
        return {**asdict(self.scores), **asdict(self.ranking), "told_apart": apart}

    def write(self, folder: Path) -> list[Path]:
        """Write ranks.json and the diagram; returns the paths."""
        from levelfield.reports.figures.critical_difference import draw_critical_difference

        write_json(folder / "ranks.json", self.as_data())
        title = f"mean ranks by {self.scores.metric} on {len(self.ranking.datasets)} datasets"
        drawn = draw_critical_difference(self.ranking, title, folder / "critical-difference.png")
        return [folder / "ranks.json", drawn]

    def show(self, console: Console) -> None:
        """Print notes, the table and what the tests say."""
        for note in self.scores.notes:
            console.print(f"Note: {note}", soft_wrap=True)
        datasets = self.ranking.datasets
        rows = [
            [method, f"{mean:.2f}", *(f"{self.scores.table[dataset][method]:.3f}" for dataset in datasets)]
            for method, mean in self.ranking.mean_ranks.items()
        ]
        columns: list[str | Column] = ["method", *numbers("mean rank", *datasets)]
        Table(columns, rows, f"Mean ranks by {self.scores.metric}, best first").show(console)
        for sentence in verdict(self.ranking):
            console.print(sentence, soft_wrap=True)


def rank_over_datasets(folders: Sequence[Path], metric: str | None = None) -> DatasetRanks:
    """Rank the methods of finished studies on different data. metric: by default the first one of the first study."""
    scores = across(folders, metric)
    return DatasetRanks(scores, rank(scores.table))


def verdict(ranking: Ranking) -> list[str]:
    """What the tests say, in sentences."""
    sentences = [f"Friedman test that all methods are equal: chi-square {ranking.chi_square:.2f}, p {ranking.p:.4f}."]
    datasets = len(ranking.datasets)
    if datasets < _FEW:
        sentences.append(f"With {datasets} datasets the test is approximate; {_FEW} or more make it reliable.")
    if not ranking.differ:
        return [*sentences, f"The methods do not differ significantly at {ALPHA:.0%}."]
    sentences.append(
        f"Nemenyi: critical difference of mean ranks {ranking.critical_difference:.2f}, {ALPHA:.0%} over all pairs."
    )
    sentences += [f"- {method}: better than {', '.join(below)}." for method, below in worse_methods(ranking)]
    return sentences + [f"- no significant difference: {', '.join(group)}." for group in ranking.groups]
