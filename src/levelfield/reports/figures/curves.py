"""004, figure 7: the training classes against the test classes while a run trains (`monitor: test`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import colour, panels, save
from levelfield.reports.figures._rows import Drawn

PARTS = {"train": "training classes", "test": "test classes"}
ACROSS = 3


def draw_curves(rows: list[Drawn], metric: str, path: Path) -> Path:
    """A panel for each row: thin lines are seeds, thick ones their mean. All panels have the same scale."""
    shown = [(row, watched) for row in rows if (watched := _watched(row))]
    if not shown:
        raise BadInput("No run wrote its figures down while it trained: set conditions.monitor: test and train again.")
    found = {entry["metric"] for _, watched in shown for run in watched for entry in run}
    if len(found) > 1:
        raise BadInput(f"These runs wrote down different metrics while they trained: {', '.join(sorted(found))}.")
    across = min(ACROSS, len(shown))
    down = math.ceil(len(shown) / across)
    figure, axes = panels(down, across, width=3.6 * across + 0.6, height=2.9 * down + 0.5, share=True)
    for axis in np.ravel(axes)[len(shown) :]:
        axis.set_visible(False)
    for axis, (row, watched) in zip(np.ravel(axes), shown, strict=False):
        for number, (part, name) in enumerate(PARTS.items()):
            _lines(axis, watched, part, name, colour(number))
        axis.set(xlabel="steps", ylabel=found.copy().pop())
        axis.set_title(row.row.label, fontsize=9)
        axis.grid(axis="y", color="#eeeeee")
        axis.label_outer()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(PARTS), fontsize=8, frameon=False)
    return save(figure, path)


def _watched(row: Drawn) -> list[list[dict[str, Any]]]:
    """What each run of the row wrote down; nothing for those that were not watched."""
    return [entries for result in row.results if (entries := result.summary.get("monitored"))]


def _lines(axis: Any, watched: list[list[dict[str, Any]]], part: str, name: str, shade: str) -> None:
    for run in watched:
        axis.plot([e["step"] for e in run], [e[part] for e in run], color=shade, linewidth=0.7, alpha=0.5)
    # runs may end early: the mean is over those that came so far
    steps = sorted({entry["step"] for run in watched for entry in run})
    means = [np.mean([e[part] for run in watched for e in run if e["step"] == step]) for step in steps]
    axis.plot(steps, means, color=shade, linewidth=1.8, label=name)
