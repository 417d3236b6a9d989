"""The interval of one figure: over other test classes and training again, or over runs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.classes import Floats
from levelfield.evaluation.statistics.crossed import MIN_CLASSES, Table

UNSEEN = 1.0  # classes that were not drawn, and may be as different as a figure in [0, 1] allows


@dataclass(frozen=True)
class Interval:
    """A mean and the interval around it."""

    mean: float
    low: float
    high: float
    level: float = 0.95

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def figure_intervals(table: Table, *, level: float = 0.95) -> list[Interval | None]:
    """For each row of a table; None below 5 classes, and where all classes have the same figure.

    Student's t with Satterthwaite's degrees of freedom, on the logit (where the figure lies in (0, 1), as all
    retrieval metrics do): an interval never leaves [0, 1], and is longer on the side where there is more room. Few
    classes may all be easy by chance and then vary too little, so one class more is counted, with the largest variance
    that a figure in [0, 1] can have, mean (1 - mean).

    >>> [found] = figure_intervals(Table.of({"a": [[0.9, 0.7, 0.8, 1.0, 0.9]]}, [5] * 5))
    >>> round(found.low, 3), round(found.mean, 3), round(found.high, 3)
    (0.475, 0.86, 0.977)
    >>> figure_intervals(Table.of({"a": [[0.9, 0.7, 0.8, 1.0]], "b": [[0.5, 0.5, 0.5, 0.5]]}, [5] * 4))
    [None, None]
    """
    from scipy.special import expit, logit, stdtrit

    means, weights = table.means, table.weights
    known = np.diagonal(table.spread) > 1e-15
    if len(weights) < MIN_CLASSES or not known.any():
        return [None] * len(means)
    inside = (means > 0) & (means < 1)
    room = np.where(inside, means * (1 - means), 1.0)
    seen = len(weights) - 1.0
    widened = (seen * np.diagonal(table.spread) + UNSEEN * room * weights.concentration) / (seen + UNSEEN)
    found = table.variance(np.where(inside, widened, np.diagonal(table.spread)), np.arange(len(means)))
    half = stdtrit(found.freedom, (1 + level) / 2) * np.sqrt(found.total)
    centre = logit(np.where(inside, means, 0.5))
    low, high = (np.where(inside, expit(centre + sign * half / room), means + sign * half) for sign in (-1, 1))
    bounds = zip(means.tolist(), low.tolist(), high.tolist(), known.tolist(), strict=True)
    return [Interval(mean, least, most, level) if is_known else None for mean, least, most, is_known in bounds]


def class_interval(values: npt.ArrayLike, queries: npt.ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Interval of one figure over other test classes; values `[seeds, classes]` or `[classes]`."""
    means = np.atleast_2d(np.asarray(values, dtype=np.float64)).mean(axis=0)
    return figure_intervals(Table.of({"figure": means}, queries, fixed=["figure"]), level=level)[0]


def t_interval(values: Sequence[float] | Floats, *, level: float = 0.95) -> Interval | None:
    """Mean over runs with Student's interval, mean +- t s / sqrt(n); None for a single run.

    >>> interval = t_interval([0.60, 0.62, 0.61])
    >>> round(interval.mean, 4), round(interval.half_width, 4)
    (0.61, 0.0248)
    """
    runs = np.asarray(values, dtype=np.float64)
    if runs.ndim != 1 or not np.isfinite(runs).all() or not len(runs):
        raise BadInput(f"An interval over runs needs one finite value per run; {runs.tolist()} came.")
    if len(runs) == 1:
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(len(runs) - 1, (1 + level) / 2)) * float(runs.std(ddof=1)) / math.sqrt(len(runs))
    mean = float(runs.mean())
    return Interval(mean, mean - half, mean + half, level)
