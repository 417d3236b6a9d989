"""Miners: `(embeddings, labels) -> tuples`. One file each; a new file here is found automatically.

>>> import torch
>>> from levelfield import miners
>>> embeddings = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
>>> triplets = miners.create("semihard", margin=0.1)(embeddings, torch.arange(8) // 2)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from levelfield.miners._base import BaseMiner, Tuples
from levelfield.miners._contract import (
    Miner,
    MinerChoice,
    MinerFacts,
    create,
    describe,
    names,
    register,
    resolve,
)

if TYPE_CHECKING:  # written by make docs
    from levelfield.miners.all import All as All
    from levelfield.miners.batch_hard import BatchHard as BatchHard
    from levelfield.miners.distance_weighted import DistanceWeighted as DistanceWeighted
    from levelfield.miners.multi_similarity import MultiSimilarityMiner as MultiSimilarityMiner
    from levelfield.miners.n_pair import NPairMiner as NPairMiner
    from levelfield.miners.random import Random as Random
    from levelfield.miners.semihard import Semihard as Semihard
    from levelfield.miners.softhard import Softhard as Softhard
    from levelfield.miners.switch import Switched as Switched

__all__ = [
    "BaseMiner",
    "Miner",
    "MinerChoice",
    "MinerFacts",
    "Tuples",
    "create",
    "describe",
    "names",
    "register",
    "resolve",
]


def _offer_classes() -> None:
    """Import every public file of this package and export its miner classes."""
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{found.name}")
            for name, value in vars(module).items():
                if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
                    globals()[name] = value
                    __all__.append(name)


_offer_classes()
