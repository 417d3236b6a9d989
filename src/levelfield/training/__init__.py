"""Training: the one loop, its optimisers, checkpoints and ledger."""

from levelfield.training.conditions import Conditions
from levelfield.training.loop import Pace, train
from levelfield.training.progress import Progress

__all__ = ["Conditions", "Pace", "Progress", "train"]
