"""How a figure of the leaderboard is written, for people and for programs."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable

from levelfield.evaluation import parse
from levelfield.studies.rows import Cell

PARTS = ("mean", "low", "high", "sd_over_seeds", "low_over_seeds", "high_over_seeds")


def heading(metric: str) -> str:
    """Its name; geometry says of which set, since papers measure it on training embeddings.

    >>> heading("recall@1"), heading("rho")
    ('recall@1', 'rho (test)')
    """
    return f"{metric} (test)" if parse(metric).kind == "geometry" else metric


def letters(texts: Iterable[str]) -> dict[str, str]:
    """A letter for each different text, in order of appearance; after z come capitals, then numbers.

    >>> letters(["dim 64", "lr 3", "dim 64"])
    {'dim 64': 'a', 'lr 3': 'b'}
    """
    signs = itertools.chain(string.ascii_letters, (f"({k})" for k in itertools.count(1)))
    return dict(zip(dict.fromkeys(texts), signs, strict=False))


def figure(cell: Cell) -> str:
    return f"{cell.mean:.3f}" + (f" {cell.representation}" if cell.representation else "")


def interval(cell: Cell) -> str:
    """Over test classes."""
    return _between(cell.low, cell.high)


def over_seeds(cell: Cell) -> str:
    """Student's interval over seeds.

    >>> over_seeds(Cell(0.5, seeds_low=0.4, seeds_high=0.6)), over_seeds(Cell(0.5))
    ('0.400-0.600', '-')
    >>> over_seeds(Cell(0.5, seeds_low=-0.1, seeds_high=1.1))
    '-0.100 to 1.100'
    """
    return _between(cell.seeds_low, cell.seeds_high)


def spread(cell: Cell) -> str:
    return f"{cell.spread:.3f}" if cell.spread is not None else "-"


def numbers(cell: Cell) -> list[str]:
    """For a program to read, under PARTS; nothing where it is not known."""
    values = (cell.mean, cell.low, cell.high, cell.spread, cell.seeds_low, cell.seeds_high)
    return ["" if value is None else f"{value:.6f}" for value in values]


def _between(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "-"
    return f"{low:.3f}{'-' if low >= 0 else ' to '}{high:.3f}"
