"""Statistics of figures: what chance there is in a figure or a difference, and what would make it surer.

Knows arrays of figures by seed and test class, and nothing of studies.
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
