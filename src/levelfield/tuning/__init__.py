"""Tuning: equal-budget search of hyperparameters."""

from levelfield.tuning.search import Trial, as_log, best, propose, search

__all__ = ["Trial", "as_log", "best", "propose", "search"]
