"""Training: the one loop, its optimisers, checkpoints and ledger."""

from levelfield.training.conditions import Conditions
from levelfield.training.loop import Observer, Pace, train
from levelfield.training.state import TrainingState

__all__ = ["Conditions", "Observer", "Pace", "TrainingState", "train"]
