"""Training: the one loop, its optimisers, checkpoints and ledger."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.training.conditions import Conditions
    from levelfield.training.divided import Divided
    from levelfield.training.loop import train
    from levelfield.training.recorder import Observer, Pace
    from levelfield.training.state import TrainingState

_HOMES = {
    "Conditions": "conditions",
    "Divided": "divided",
    "Observer": "recorder",
    "Pace": "recorder",
    "TrainingState": "state",
    "train": "loop",
}

__all__ = ["Conditions", "Divided", "Observer", "Pace", "TrainingState", "train"]

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a part on first access: the loop needs torch, but a study file needs only the conditions."""
        if name in _HOMES:
            return getattr(importlib.import_module(f"levelfield.training.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'levelfield.training' has no attribute '{name}'")
