"""lim2022, figure 2: learned means and covariances against the classes' own means and spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.methods import learns_distributions
from levelfield.reports.figures._axes import limits
from levelfield.reports.figures._drawing import panels, plainly, save, shortened
from levelfield.reports.figures._registry import nothing_trains, register
from levelfield.reports.figures._rows import Drawn
from levelfield.reports.figures._style import COLOURS

if TYPE_CHECKING:
    from levelfield.studies.runs.distributions import Distributions
    from levelfield.studies.specification.study import Study

MOST = 300  # classes in a matrix, evenly chosen; more would exceed the resolution


def _no_hist(study: Study) -> str | None:
    if any(learns_distributions(method.name) for method in study.methods):
        return None
    return nothing_trains(study) or "it needs the method `hist`, which the study does not have"


@register(
    "distributions",
    "what `hist` learned of its classes: similarities of their means, and their spreads",
    why_not=_no_hist,
)
def draw_distributions(rows: list[Drawn], metric: str, path: Path) -> Path:
    """Draw the first seed of every HIST row: a matrix of similarities and a scatter plot of spreads."""
    from levelfield.studies.runs.distributions import distributions_of

    shown = [row for row in rows if row.results and learns_distributions(row.method)]
    folders = {row.row.label: row.results[0].folder for row in shown}
    distributions = {label: one for label, folder in folders.items() if (one := distributions_of(folder)) is not None}
    if not distributions:
        raise BadInput(
            "The figure 'distributions' shows the class distributions learned by `hist`, and this study has no "
            "finished run of `hist` that learns means and variances."
        )
    return draw(distributions, path, {row.row.label: row.style.colour for row in rows})


@plainly
def draw(distributions: dict[str, Distributions], path: Path, colours: dict[str, str] | None = None) -> Path:
    """Draw the figure from arrays, one row of panels per entry."""
    figure, axes = panels(len(distributions), 2, width=9.2, height=3.9 * len(distributions), ratios=(1.15, 1))
    for line, (label, one), name in zip(axes, distributions.items(), shortened(list(distributions), 28), strict=True):
        _similarities(line[0], one, name)
        _spreads(line[1], one, (colours or {}).get(label, COLOURS[0]))
    return save(figure, path)


def _similarities(axis: Any, one: Distributions, label: str) -> None:
    count = len(one.learned_means)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST)).round().astype(int))
    table = one.learned_means[chosen] @ one.found_means[chosen].T
    image = axis.imshow(table, cmap="viridis", vmin=min(0.0, table.min()), vmax=1.0)
    axis.figure.colorbar(image, ax=axis, shrink=0.8, label="cosine")
    part = "" if len(chosen) == count else f" ({len(chosen)} of {count} classes)"
    axis.set(xlabel=f"mean of the class's embeddings{part}", ylabel="learned mean")
    own = float(np.sum(one.learned_means * one.found_means, axis=1).mean())
    others = float(one.learned_means.sum(axis=0) @ one.found_means.sum(axis=0) - own * count) / max(1, count**2 - count)
    axis.set_title(f"{label}: own class {own:z.2f}, others {others:z.2f}")


def _spreads(axis: Any, one: Distributions, colour: str) -> None:
    axis.plot(one.found_spreads, one.learned_spreads, "o", color=colour, markersize=3, alpha=0.5)
    axis.set(xlim=limits(one.found_spreads), ylim=limits(one.learned_spreads))
    axis.set(xlabel="mean squared distance to the class's mean", ylabel="Frobenius norm of the learned covariance")
    varied = len(one.found_spreads) > 2 and one.found_spreads.std() and one.learned_spreads.std()
    if varied:
        correlation = np.corrcoef(one.found_spreads, one.learned_spreads)[0, 1]
        axis.set_title(f"correlation over {len(one.found_spreads)} classes: {correlation:z.2f}")
