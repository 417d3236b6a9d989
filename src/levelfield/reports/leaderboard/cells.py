"""Format the scores of a leaderboard, for tables and for programs."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable

from levelfield.evaluation import parse
from levelfield.studies.leaderboard.rows import Cell

PARTS = ("mean", "low", "high", "sd_over_seeds")
UNKNOWN = "not known"


def heading(metric: str) -> str:
    """The column heading; geometry metrics name the set, since papers measure them on training embeddings.

    >>> heading("recall@1"), heading("rho")
    ('recall@1', 'rho (test)')
    """
    return f"{metric} (test)" if parse(metric).kind == "geometry" else metric


def letters(texts: Iterable[str]) -> dict[str, str]:
    """A letter for each distinct text, in order of appearance; capitals follow z, then numbers.

    >>> letters(["dim 64", "lr 3", "dim 64"])
    {'dim 64': 'a', 'lr 3': 'b'}
    """
    signs = itertools.chain(string.ascii_letters, (f"({k})" for k in itertools.count(1)))
    return dict(zip(dict.fromkeys(texts), signs, strict=False))


def figure(cell: Cell) -> str:
    return f"{cell.mean:.3f}" + (f" {cell.representation}" if cell.representation else "")


def interval(cell: Cell) -> str:
    """The interval over test classes and retraining, as text.

    >>> interval(Cell(0.5, 0.4, 0.6)), interval(Cell(0.5)), interval(Cell(0.5, -0.1, 1.1))
    ('0.400-0.600', 'not known', '-0.100 to 1.100')
    """
    if cell.low is None or cell.high is None:
        return UNKNOWN
    return f"{cell.low:.3f}{'-' if cell.low >= 0 else ' to '}{cell.high:.3f}"


def spread(cell: Cell) -> str:
    return f"{cell.spread:.3f}" if cell.spread is not None else "-"


def numbers(cell: Cell) -> list[str]:
    """Machine-readable values for the columns PARTS; empty if unknown."""
    values = (cell.mean, cell.low, cell.high, cell.spread)
    return ["" if value is None else f"{value:.6f}" for value in values]
