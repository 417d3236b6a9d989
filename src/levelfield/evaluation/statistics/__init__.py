"""Statistics of scores: uncertainty of a score or a difference, and the sample sizes that would reduce it.

Works on arrays of scores by seed and test class; independent of studies.
"""

from __future__ import annotations

from levelfield.evaluation.statistics.comparisons import ALPHA, Comparison, chances, compare_all, holm, joint, ties
from levelfield.evaluation.statistics.crossed import MIN_CLASSES, Differences, Table
from levelfield.evaluation.statistics.intervals import Interval, class_interval, figure_intervals, t_interval
from levelfield.evaluation.statistics.needed import Needed, detectable_effect
from levelfield.evaluation.statistics.pair_rates import PairRate, differ

__all__ = [
    "ALPHA",
    "MIN_CLASSES",
    "Comparison",
    "Differences",
    "Interval",
    "Needed",
    "PairRate",
    "Table",
    "chances",
    "class_interval",
    "compare_all",
    "detectable_effect",
    "differ",
    "figure_intervals",
    "holm",
    "joint",
    "t_interval",
    "ties",
]
