"""Training: the one loop, its optimisers, checkpoints and ledger."""

from typing import TYPE_CHECKING

from levelfield.index import lazy

if TYPE_CHECKING:
    from levelfield.training.checkpoint import TrainingState as TrainingState
    from levelfield.training.conditions import Conditions as Conditions
    from levelfield.training.divided import Divided as Divided
    from levelfield.training.loop import train as train
    from levelfield.training.recorder import Observer as Observer
    from levelfield.training.recorder import Pace as Pace

if not TYPE_CHECKING:  # a type checker that saw this function would accept any misspelt name
    __all__, __getattr__ = lazy(__name__)
