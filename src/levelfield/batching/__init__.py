"""Batchings: which images form a batch.

>>> {"random", "spc", "episodes"} <= set(names())
True
"""

from __future__ import annotations

from levelfield.batching._registry import create, describe, maker, names, register
from levelfield.batching.balanced import Balanced
from levelfield.batching.base import Batching, Common, Promise
from levelfield.batching.choice import Choice
from levelfield.batching.d2_coreset import D2Coreset
from levelfield.batching.ddm import DistanceMatching
from levelfield.batching.episodes import Episodes
from levelfield.batching.fitting import Fit, check_fit, fits, fitting
from levelfield.batching.frd import FrechetMatching
from levelfield.batching.greedy_coreset import GreedyCoreset
from levelfield.batching.layout import Layout, fit_batch
from levelfield.batching.m_per_class import MPerClass
from levelfield.batching.n_pair import Pairs
from levelfield.batching.random import Random
from levelfield.batching.report import PlanReport, report
from levelfield.batching.spc import SamplesPerClass
from levelfield.batching.spc_r import RandomWithPair

__all__ = [
    "Balanced",
    "Batching",
    "Choice",
    "Common",
    "D2Coreset",
    "DistanceMatching",
    "Episodes",
    "Fit",
    "FrechetMatching",
    "GreedyCoreset",
    "Layout",
    "MPerClass",
    "Pairs",
    "PlanReport",
    "Promise",
    "Random",
    "RandomWithPair",
    "SamplesPerClass",
    "check_fit",
    "create",
    "describe",
    "fit_batch",
    "fits",
    "fitting",
    "maker",
    "names",
    "register",
    "report",
]
