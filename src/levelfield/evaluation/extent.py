"""How much of the data an evaluation measured, and how much of it was in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from levelfield.evaluation.inputs import Array
from levelfield.evaluation.statistics import Interval


@dataclass(frozen=True)
class Division:
    """How a search is divided: most queries and (query, positive) pairs of a block, gallery rows of a panel.

    memory: the limit in bytes for all workers together, beyond the program itself.
    """

    memory: int
    queries: int
    pairs: int
    panel: int
    workers: int = 1


@dataclass(frozen=True)
class Sample:
    """The sampled queries: their rows, and the number of all queries. intervals: of the scores of all queries."""

    rows: Array = field(repr=False)
    of: int
    seed: int
    intervals: dict[str, Interval] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{len(self.rows)}of{self.of}-seed{self.seed}"
