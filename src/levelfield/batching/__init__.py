"""Batchings choose the images of each batch. A new file here is found automatically.

>>> from levelfield import batching
>>> {"random", "spc", "episodes"} <= set(batching.names())
True
"""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.batch_layout import Layout as Layout
    from levelfield.batching._base import Batching as Batching
    from levelfield.batching._base import Promise as Promise
    from levelfield.batching._fitting import Fit as Fit
    from levelfield.batching._fitting import PlanReport as PlanReport
    from levelfield.batching._fitting import check_fit as check_fit
    from levelfield.batching._fitting import fit_batch as fit_batch
    from levelfield.batching._fitting import fits as fits
    from levelfield.batching._fitting import report as report
    from levelfield.batching._registry import Choice as Choice
    from levelfield.batching._registry import create as create
    from levelfield.batching._registry import describe as describe
    from levelfield.batching._registry import names as names
    from levelfield.batching._registry import register as register

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

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
