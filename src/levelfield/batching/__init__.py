"""Batchings choose the images of each batch. One file each; a new file here is found automatically.

>>> {"random", "spc", "episodes"} <= set(names())
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.batch_layout import Layout
from levelfield.batching._base import Batching, Promise
from levelfield.batching._fitting import Fit, PlanReport, check_fit, fit_batch, fits, report
from levelfield.batching._registry import Choice, create, describe, maker, names, register
from levelfield.index import lazy

if TYPE_CHECKING:  # written by make tables
    from levelfield.batching.balanced import Balanced as Balanced
    from levelfield.batching.coresets import D2Coreset as D2Coreset
    from levelfield.batching.coresets import GreedyCoreset as GreedyCoreset
    from levelfield.batching.episodes import Episodes as Episodes
    from levelfield.batching.matching import DistanceMatching as DistanceMatching
    from levelfield.batching.matching import FrechetMatching as FrechetMatching
    from levelfield.batching.random import Random as Random
    from levelfield.batching.random import RandomWithPair as RandomWithPair
    from levelfield.batching.spc import MPerClass as MPerClass
    from levelfield.batching.spc import Pairs as Pairs
    from levelfield.batching.spc import SamplesPerClass as SamplesPerClass

__all__ = [
    "Batching",
    "Choice",
    "Fit",
    "Layout",
    "PlanReport",
    "Promise",
    "check_fit",
    "create",
    "describe",
    "fit_batch",
    "fits",
    "maker",
    "names",
    "register",
    "report",
]

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    _classes, __getattr__ = lazy(__name__)
    __all__ += _classes
