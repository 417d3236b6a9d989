"""Tuning: the same search budget for every method, judged by validation classes only."""

from levelfield.tuning.budget import Budget
from levelfield.tuning.result import Tuned
from levelfield.tuning.search import tune
from levelfield.tuning.trials import Judge, SearchSettings, Trial, TuningProgress

__all__ = ["Budget", "Judge", "SearchSettings", "Trial", "Tuned", "TuningProgress", "tune"]
