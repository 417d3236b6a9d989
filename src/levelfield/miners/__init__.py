"""Miners: `(embeddings, labels) -> tuples`. A new file here is found automatically.

>>> import torch
>>> from levelfield import miners
>>> embeddings = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
>>> triplets = miners.create("semihard", margin=0.1)(embeddings, torch.arange(8) // 2)
"""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.miners._contract import BaseMiner as BaseMiner
    from levelfield.miners._contract import Miner as Miner
    from levelfield.miners._contract import MinerChoice as MinerChoice
    from levelfield.miners._contract import MinerFacts as MinerFacts
    from levelfield.miners._contract import Tuples as Tuples
    from levelfield.miners._contract import create as create
    from levelfield.miners._contract import describe as describe
    from levelfield.miners._contract import names as names
    from levelfield.miners._contract import register as register
    from levelfield.miners._contract import resolve as resolve
    from levelfield.miners.switch import Switched as Switched

if TYPE_CHECKING:  # written by make tables
    from levelfield.miners.all import All as All
    from levelfield.miners.batch_hard import BatchHard as BatchHard
    from levelfield.miners.distance_weighted import DistanceWeighted as DistanceWeighted
    from levelfield.miners.multi_similarity import MultiSimilarityMiner as MultiSimilarityMiner
    from levelfield.miners.n_pair import NPairMiner as NPairMiner
    from levelfield.miners.random import Random as Random
    from levelfield.miners.semihard import Semihard as Semihard
    from levelfield.miners.softhard import Softhard as Softhard

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
