"""Figures of studies and of the toy experiment. Importing this imports no drawing library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from levelfield.errors import BadSpecification, unknown
from levelfield.reports.figures._drawing import check_name
from levelfield.reports.figures._possible import why_not
from levelfield.reports.figures._rows import Drawn, drawn
from levelfield.reports.figures.cost import draw_cost
from levelfield.reports.figures.curves import draw_curves
from levelfield.reports.figures.distributions import draw_distributions
from levelfield.reports.figures.leaderboard import draw_leaderboard
from levelfield.reports.figures.recall_rho import draw_recall_rho
from levelfield.reports.figures.spectra import draw_spectra
from levelfield.reports.figures.sweep import draw_sweep
from levelfield.reports.figures.toy import draw_toy
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study

__all__ = ["FIGURES", "check_figures", "check_name", "draw_figures", "draw_toy", "figures_of", "why_not"]

FIGURES: dict[str, Callable[[list[Drawn], str, Path], Path]] = {
    "cost": draw_cost,
    "curves": draw_curves,
    "distributions": draw_distributions,
    "leaderboard": draw_leaderboard,
    "recall-rho": draw_recall_rho,
    "spectra": draw_spectra,
    "sweep": draw_sweep,
}


def check_figures(names: Iterable[str], study: Study | None = None) -> list[str]:
    """Validate figure names, and that `study` (if given) can have these figures. Cheap: called before training.

    >>> check_figures(["spectra"])
    ['spectra']
    """
    names = list(names)
    for name in names:
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
        reason = why_not(name, study) if study is not None else None
        if reason is not None:
            raise BadSpecification(f"The figure '{name}' cannot be drawn for this study: {reason}.")
    return names


def figures_of(study: Study) -> list[str]:
    """The figures that the study names; by default a `sweep` if the study varies something and it can be drawn."""
    return list(study.figures) or (["sweep"] if why_not("sweep", study) is None else [])


def draw_figures(
    names: Iterable[str], board: Leaderboard, runs: list[PlannedRun], folder: Path, out: Path | None = None
) -> list[Path]:
    """Draw figures of a study by name, as PNG files beside its tables. Returns the paths."""
    rows = drawn(board, runs, folder)
    return [FIGURES[name](rows, board.metrics[0], (out or folder) / f"{name}.png") for name in check_figures(names)]
