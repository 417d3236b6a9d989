"""Methods ranked over several datasets: Friedman's test, Nemenyi's critical difference, and its diagram."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.evaluation.statistics.comparisons import ALPHA
from levelfield.evaluation.statistics.friedman import Ranking, rank, worse_methods
from levelfield.files.writing import write_json
from levelfield.reports.figures._drawing import panels, plainly, save, shortened
from levelfield.studies.leaderboard.across import Across
from levelfield.table import Column, Table, numbers

ROW, BAR = 0.32, 0.16  # inches between two names of the diagram, and between two bars
_MIN_DATASETS = 10  # Demsar 2006: with fewer datasets the chi-square approximation is rough


@dataclass(frozen=True)
class DatasetRanks:
    """The scores of methods on datasets, and their ranking."""

    scores: Across

    @cached_property
    def ranking(self) -> Ranking:
        return rank(self.scores.table)

    def as_data(self) -> dict[str, Any]:
        apart = dict(worse_methods(self.ranking)) if self.ranking.differ else {}
        return {**asdict(self.scores), **asdict(self.ranking), "told_apart": apart}

    def write(self, folder: Path) -> list[Path]:
        """Write ranks.json and the diagram; returns the paths."""
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


def verdict(ranking: Ranking) -> list[str]:
    """What the tests say, in sentences."""
    sentences = [f"Friedman test that all methods are equal: chi-square {ranking.chi_square:.2f}, p {ranking.p:.4f}."]
    datasets = len(ranking.datasets)
    if datasets < _MIN_DATASETS:
        sentences.append(f"With {datasets} datasets the test is approximate; {_MIN_DATASETS} or more make it reliable.")
    if not ranking.differ:
        return [*sentences, f"The methods do not differ significantly at {ALPHA:.0%}."]
    sentences.append(
        f"Nemenyi: critical difference of mean ranks {ranking.critical_difference:.2f}, {ALPHA:.0%} over all pairs."
    )
    sentences += [f"- {method}: better than {', '.join(below)}." for method, below in worse_methods(ranking)]
    return sentences + [f"- no significant difference: {', '.join(group)}." for group in ranking.groups]


@plainly
def draw_critical_difference(ranking: Ranking, title: str, path: Path) -> Path:
    """Mean ranks, best on the left; bars join methods that do not differ (Demsar 2006, figure 1).

    If the methods do not differ at all (Friedman), one bar joins all of them.
    """
    names = list(ranking.mean_ranks)
    last, half, short = len(names), math.ceil(len(names) / 2), shortened(names)
    bars = ranking.groups if ranking.differ else [names]
    first = 0.25 + BAR * len(bars)  # inches between the line and the first name
    below = first + ROW * half
    beside = sum(max(map(len, part), default=0) for part in (short[:half], short[half:]))
    figure, axes = panels(1, 1, width=max(4.0, 0.3 * last) + 0.07 * (beside + 12), height=below + 1.15)
    axis = axes[0, 0]
    axis.set(xlim=(0.6, last + 0.4), ylim=(-below, 0.75))
    axis.axis("off")
    axis.plot([1, last], [0, 0], color="black", linewidth=1)
    for number in range(1, last + 1):
        axis.plot([number, number], [0, 0.08], color="black", linewidth=1)
        axis.text(number, 0.12, str(number), ha="center", fontsize=8)
    end = min(1 + ranking.critical_difference, last + 0.4)
    axis.plot([1, end], [0.42, 0.42], color="black", linewidth=1)
    for edge in (1, *([end] if end == 1 + ranking.critical_difference else [])):
        axis.plot([edge, edge], [0.37, 0.47], color="black", linewidth=1)
    axis.text((1 + end) / 2, 0.47, f"critical difference {ranking.critical_difference:.2f}", ha="center", fontsize=8)
    for index, (mean, name) in enumerate(zip(ranking.mean_ranks.values(), short, strict=True)):
        left = index < half  # the better half; names are outside the line, next to its ends
        down = -(first + ROW * (index if left else last - 1 - index))
        edge, beyond, side = (0.95, -3, "right") if left else (last + 0.05, 3, "left")
        axis.plot([mean, mean, edge], [0, down, down], color="#444444", linewidth=0.8)
        text = f"{name}  {mean:.2f}" if left else f"{mean:.2f}  {name}"
        where = {"xytext": (beyond, 0), "textcoords": "offset points", "annotation_clip": False}
        axis.annotate(text, (edge, down), **where, fontsize=8, ha=side, va="center")
    for index, group in enumerate(bars):
        ends = [ranking.mean_ranks[group[0]] - 0.03, ranking.mean_ranks[group[-1]] + 0.03]
        axis.plot(ends, [-0.12 - BAR * index] * 2, color="#d55e00", linewidth=3, solid_capstyle="butt")
    axis.set_title(title)
    return save(figure, path)
