"""Objectives: `(embeddings, labels) -> loss`. One file each, reading like its equation; a new file is found by itself.

>>> import torch
>>> from levelfield import objectives
>>> loss = objectives.create("triplet", margin=0.1)
>>> value = loss(torch.randn(8, 16, generator=torch.Generator().manual_seed(0)), torch.arange(8) // 2)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from levelfield.objectives._contract import Facts, Given, Objective, register
from levelfield.objectives._create import as_objective, create, describe, names

__all__ = ["Facts", "Given", "Objective", "as_objective", "create", "describe", "names", "register"]


def _offer_classes() -> None:
    """Import every public file of this room and offer the objectives written in it."""
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{found.name}")
            for name, value in vars(module).items():
                if isinstance(value, type) and issubclass(value, Objective) and value.__module__ == module.__name__:
                    globals()[name] = value
                    __all__.append(name)


def __getattr__(name: str) -> Any:  # tells type checkers that names come from the files
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_offer_classes()
