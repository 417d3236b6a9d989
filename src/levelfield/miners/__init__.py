"""Miners: `(embeddings, labels) -> tuples`. One file each; a new file here is found automatically.

>>> import torch
>>> from levelfield import miners
>>> embeddings = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
>>> triplets = miners.create("semihard", margin=0.1)(embeddings, torch.arange(8) // 2)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

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


def __getattr__(name: str) -> Any:  # tells type checkers that names come from the files
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_offer_classes()
