"""seidenschwarz2021, figure 7: metrics of training, validation and test classes during training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from levelfield.errors import BadInput
from levelfield.reports.figures._drawing import GRID, limits, panel_grid, save, shortened
from levelfield.reports.figures._registry import nothing_trains, register
from levelfield.reports.figures._rows import Drawn
from levelfield.studies.runs.folder.store import Result, read_spec
from levelfield.studies.specification.study import Study

# parts of the data, with line styles: each method has one colour
PARTS: dict[str, tuple[str, Any]] = {
    "train": ("training classes", ":"),
    "validation": ("validation classes", "--"),
    "test": ("test classes", "-"),
}
ACROSS = 3


class Curve(NamedTuple):
    """The values that one run recorded for one part of the data during training."""

    part: str
    metric: str
    steps: list[int]
    values: list[float]
    chosen: int | None = None  # the step whose weights were kept


def _nothing_is_watched(study: Study) -> str | None:
    """Some runs must be evaluated during training, on test or validation classes."""
    if reason := nothing_trains(study):
        return reason
    monitors = study.vary.get("conditions.monitor", [study.conditions.monitor])
    selects = study.vary.get("conditions.select", [study.conditions.select])
    if "test" in monitors or any(select != "budget" for select in selects):
        return None
    return (
        "nothing is evaluated during training: set conditions.monitor: test, or protocol.validation: 0.2 "
        "with conditions.select: map@r"
    )


@register("curves", "metrics during training, one panel per row", why_not=_nothing_is_watched)
def draw_curves(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw a panel for each row: thin lines are seeds, thick ones their mean. All panels share one scale."""
    shown = [(row, curves) for row in rows if (curves := [curve for run in row.results for curve in _curves(run)])]
    if not shown:
        raise BadInput(
            "No run was evaluated during training: set conditions.monitor: test, or conditions.select to a "
            "metric of validation classes, and train again."
        )
    every = [curve for _, curves in shown for curve in curves]
    metrics = {part: curve.metric for part in PARTS for curve in every if curve.part == part}
    mixed = {curve.metric for curve in every if curve.metric != metrics[curve.part]}
    if mixed:
        different = ", ".join(sorted(mixed | set(metrics.values())))
        raise BadInput(f"These runs recorded different metrics during training: {different}.")
    figure, axes = panel_grid(len(shown), across=ACROSS, width=3.4, height=2.7, beside=0.6, below=0.6, share=True)
    titles = shortened([row.row.label for row, _ in shown], 36)
    for axis, (row, curves), title in zip(axes, shown, titles, strict=True):
        for part in metrics:
            name, line = PARTS[part]
            look: dict[str, Any] = {"color": row.style.colour, "linestyle": line}
            reached: dict[int, list[float]] = {}
            for curve in (curve for curve in curves if curve.part == part):
                axis.plot(curve.steps, curve.values, **look, linewidth=0.7, alpha=0.5)
                if curve.chosen in curve.steps:
                    value = curve.values[curve.steps.index(curve.chosen)]
                    axis.plot(curve.chosen, value, "o", color=row.style.colour, markersize=4)
                for step, value in zip(curve.steps, curve.values, strict=True):
                    reached.setdefault(step, []).append(value)
            if reached:  # runs may stop early: the mean is over runs that reached the step
                means = [np.mean(reached[step]) for step in sorted(reached)]
                axis.plot(sorted(reached), means, **look, linewidth=1.8, label=name)
        axis.set_title(title)
        axis.grid(axis="y", color=GRID)
        axis.set_xlabel("steps")
        axis.set_ylabel(", ".join(dict.fromkeys(metrics.values())))
        axis.label_outer()
    axes[0].set_ylim(limits(value for curve in every for value in curve.values))
    _explain(figure, metrics)
    return save(figure, path)


def _curves(result: Result) -> list[Curve]:
    """The curves of a run; none if it was not evaluated during training."""
    curves = []
    watched = result.summary.get("monitored") or []
    for part in ("train", "test") if watched else ():
        values = [entry[part] for entry in watched]
        curves.append(Curve(part, watched[0]["metric"], [entry["step"] for entry in watched], values))
    if history := result.summary.get("history") or []:
        metric = read_spec(result.folder).conditions.select
        steps, values = [int(entry["step"]) for entry in history], [entry["value"] for entry in history]
        curves.append(Curve("validation", metric, steps, values, result.summary.get("best_step")))
    return curves


def _explain(figure: Any, metrics: dict[str, str]) -> None:
    """Add the legend of parts; it names the metric if the parts have different ones."""
    from matplotlib.lines import Line2D

    differ = len(set(metrics.values())) > 1
    names = [PARTS[part][0] + (f" ({metric})" if differ else "") for part, metric in metrics.items()]
    lines = [Line2D([], [], color="#444444", linestyle=PARTS[part][1], linewidth=1.8) for part in metrics]
    if "validation" in metrics:
        lines.append(Line2D([], [], color="#444444", marker="o", markersize=4, linestyle="none"))
        names.append("step whose weights were kept")
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), fontsize=8, frameon=False, handlelength=3)
