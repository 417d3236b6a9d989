"""Mean ranks over datasets, best on the left; bars join ranks that do not differ (Demsar 2006, figure 1)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from levelfield.evaluation.statistics.friedman import Ranking
from levelfield.reports.figures._drawing import panels, plainly, save, shortened

ROW, BAR = 0.32, 0.16  # inches between two names, and between two bars


@plainly
def draw_critical_difference(ranking: Ranking, title: str, path: Path) -> Path:
    """Draw names of the better half on the left, the others on the right, each with its mean rank.

    If the methods do not differ at all (Friedman), one bar joins all of them.
    """
    names = list(ranking.mean_ranks)
    half = math.ceil(len(names) / 2)
    bars = ranking.groups if ranking.differ else [names]
    first = 0.25 + BAR * len(bars)  # inches between the line and the first name
    below = first + ROW * half
    last, short = len(names), shortened(names)
    beside = sum(max(map(len, part), default=0) for part in (short[:half], short[half:]))
    figure, axes = panels(1, 1, width=max(4.0, 0.3 * last) + 0.07 * (beside + 12), height=below + 1.15)
    axis = axes[0, 0]
    axis.set(xlim=(0.6, last + 0.4), ylim=(-below, 0.75))
    axis.axis("off")
    _draw_line(axis, last, ranking.critical_difference)
    for index, name in enumerate(names):
        left = index < half
        down = -(first + ROW * (index if left else last - 1 - index))
        edge = 0.95 if left else last + 0.05
        rank = ranking.mean_ranks[name]
        axis.plot([rank, rank, edge], [0, down, down], color="#444444", linewidth=0.8)
        text = f"{short[index]}  {rank:.2f}" if left else f"{rank:.2f}  {short[index]}"
        # names are outside the line, next to its ends
        axis.annotate(
            text,
            (edge, down),
            xytext=(-3 if left else 3, 0),
            textcoords="offset points",
            fontsize=8,
            ha="right" if left else "left",
            va="center",
            annotation_clip=False,
        )
    for index, group in enumerate(bars):
        down = -0.12 - BAR * index
        ends = [ranking.mean_ranks[group[0]] - 0.03, ranking.mean_ranks[group[-1]] + 0.03]
        axis.plot(ends, [down, down], color="#d55e00", linewidth=3, solid_capstyle="butt")
    axis.set_title(title)
    return save(figure, path)


def _draw_line(axis: Any, last: int, difference: float) -> None:
    """Draw the axis of ranks, with the critical difference above it."""
    axis.plot([1, last], [0, 0], color="black", linewidth=1)
    for rank in range(1, last + 1):
        axis.plot([rank, rank], [0, 0.08], color="black", linewidth=1)
        axis.text(rank, 0.12, str(rank), ha="center", fontsize=8)
    end = min(1 + difference, last + 0.4)
    axis.plot([1, end], [0.42, 0.42], color="black", linewidth=1)
    for edge in (1, *([end] if end == 1 + difference else [])):
        axis.plot([edge, edge], [0.37, 0.47], color="black", linewidth=1)
    axis.text((1 + end) / 2, 0.47, f"critical difference {difference:.2f}", ha="center", fontsize=8)
