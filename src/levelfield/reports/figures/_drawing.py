"""What all figures share: colours, panels, and a file that appears whole. No window is ever opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from levelfield.errors import BadInput
from levelfield.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito: told apart by everybody
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#222222")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FORMATS = ("png", "pdf", "svg")


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def panels(
    rows: int, columns: int, *, width: float, height: float, ratios: tuple[float, ...] = (), share: bool = False
) -> tuple[Figure, Any]:
    """A figure and its panels (rows, columns), without the upper and right edge. `share`: all have the same scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, width_ratios=ratios or None, sharex=share, sharey=share)
    for axis in np.ravel(axes):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(which="both", labelsize=8)
    return figure, axes


def save(figure: Figure, path: Path) -> Path:
    """Write the figure in the format that its name ends with."""
    check_name(path)
    written = path.suffix[1:].lower()
    write_whole(path, lambda file: figure.savefig(file, format=written))
    return path


def check_name(path: Path) -> None:
    if path.suffix[1:].lower() not in FORMATS:
        raise BadInput(f"A figure cannot be written as '{path.name}': its name must end with .png, .pdf or .svg.")
