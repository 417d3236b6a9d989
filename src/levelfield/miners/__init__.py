"""Miners: `(embeddings, labels) -> tuples`. One file each; a new file here is found automatically.

>>> import torch
>>> from levelfield import miners
>>> embeddings = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
>>> triplets = miners.create("semihard", margin=0.1)(embeddings, torch.arange(8) // 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.index import lazy
from levelfield.miners._contract import (
    BaseMiner,
    Miner,
    MinerChoice,
    MinerFacts,
    Tuples,
    create,
    describe,
    names,
    register,
    resolve,
)
from levelfield.miners.switch import Switched

if TYPE_CHECKING:  # written by make tables
    from levelfield.miners.by_labels import All as All
    from levelfield.miners.by_labels import NPairMiner as NPairMiner
    from levelfield.miners.by_labels import Random as Random
    from levelfield.miners.distance_weighted import DistanceWeighted as DistanceWeighted
    from levelfield.miners.hard import BatchHard as BatchHard
    from levelfield.miners.hard import Softhard as Softhard
    from levelfield.miners.multi_similarity import MultiSimilarityMiner as MultiSimilarityMiner
    from levelfield.miners.semihard import Semihard as Semihard

__all__ = [
    "BaseMiner",
    "Miner",
    "MinerChoice",
    "MinerFacts",
    "Switched",
    "Tuples",
    "create",
    "describe",
    "names",
    "register",
    "resolve",
]

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    _classes, __getattr__ = lazy(__name__)
    __all__ += _classes
