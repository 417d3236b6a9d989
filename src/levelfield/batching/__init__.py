"""Which images come together in a batch.

>>> names()
['random', 'spc']
"""

from __future__ import annotations

from levelfield.batching._registry import create, describe, names, register
from levelfield.batching.base import Batching
from levelfield.batching.layout import Layout, fit_batch
from levelfield.batching.random import Random
from levelfield.batching.report import PlanReport, report
from levelfield.batching.spc import SamplesPerClass

__all__ = [
    "Batching",
    "Layout",
    "PlanReport",
    "Random",
    "SamplesPerClass",
    "create",
    "describe",
    "fit_batch",
    "names",
    "register",
    "report",
]
