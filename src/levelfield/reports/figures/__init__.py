"""Figures of studies and of the toy experiment. Importing this package does not import matplotlib.

Each figure of a study is a function in a file of this package that draws leaderboard rows; files are found
automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from levelfield.errors import BadInput, BadSpecification
from levelfield.registry import short_name
from levelfield.reports.figures._drawing import FORMATS, check_name, panels, plainly, save, shortened
from levelfield.reports.figures._registry import create, describe, names, register, why_not
from levelfield.reports.figures._rows import Drawn, drawn
from levelfield.reports.figures.line_experiment import draw_toy
from levelfield.studies import Leaderboard, PlannedRun, Study, gather
from levelfield.studies.runs.folder.store import read_plan

__all__ = [
    "Drawn", "check_figures", "check_name", "create", "describe", "draw_figures", "draw_toy", "figures_of",
    "names", "panels", "plainly", "register", "save", "shortened", "why_not",
]  # fmt: skip


def check_figures(names: Iterable[str], study: Study | None = None) -> list[str]:
    """Check figure names, and that `study` (if given) can have these figures. Cheap: called before training.

    >>> check_figures(["spectra", "gallery.svg"])
    ['spectra', 'gallery.svg']
    """
    names = list(names)
    for name, _ in map(_with_format, names):
        create(name)
        reason = why_not(name, study) if study is not None else None
        if reason is not None:
            raise BadSpecification(f"The figure '{name}' cannot be drawn for this study: {reason}.")
    return names


def figures_of(study: Study) -> list[str]:
    """The figures that the study names; by default a `sweep` if the study varies something and it can be drawn."""
    return list(study.figures) or (["sweep"] if why_not("sweep", study) is None else [])


def draw_figures(
    names: Iterable[str],
    board: Leaderboard,
    runs: list[PlannedRun],
    folder: Path,
    out: Path | None = None,
    beside: Sequence[Path] = (),
) -> list[Path]:
    """Draw figures of a study by name beside its tables; `cost` is a PNG file, `cost.svg` and `cost.pdf` are drawings
    for print. beside: folders of other studies whose rows are shown, too. Returns the paths."""
    rows = drawn(board, runs, folder)
    styles = {row.label: row.style for row in rows}
    for other in beside:
        planned = read_plan(other)
        theirs = drawn(gather(other.name, planned, other, tuple(board.metrics)), planned, other)
        rows += [replace(row, style=styles.setdefault(row.label, row.style)) for row in theirs]
    paths = []
    for name, written in map(_with_format, check_figures(names)):
        path = create(name)(rows, board.metrics[0], (out or folder) / f"{short_name(name)}.{written}")
        if not isinstance(path, Path) or not path.is_file():
            raise BadInput(f"The figure '{name}' returned {path!r}: it must write a file and return its path.")
        paths.append(path)
    return paths


def _with_format(name: str) -> tuple[str, str]:
    """The name of a figure without its file format, and the format."""
    plain, _, written = name.rpartition(".")
    return (plain, written) if plain and written in FORMATS else (name, "png")
