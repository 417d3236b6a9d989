"""The same losses from pytorch-metric-learning, as `(embeddings, labels) -> loss`."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

from torch import Tensor, nn

warnings.filterwarnings("ignore", module="pytorch_metric_learning")  # repeated advice at every call


def installed() -> bool:
    return importlib.util.find_spec("pytorch_metric_learning") is not None


class Mined(nn.Module):
    """A loss on mined tuples."""

    def __init__(self, loss: nn.Module, miner: nn.Module) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = self.loss(embeddings, labels, self.miner(embeddings, labels))
        return found


def loss(
    name: str, *, miner: tuple[str, dict[str, Any]] | None = None, distance: str | None = None, **settings: Any
) -> nn.Module:
    """The loss class `name`, with the miner and distance classes of these names."""
    from pytorch_metric_learning import distances, losses, miners

    if distance is not None:
        settings["distance"] = getattr(distances, distance)()
    made: nn.Module = getattr(losses, name)(**settings)
    return made if miner is None else Mined(made, getattr(miners, miner[0])(**miner[1]))
