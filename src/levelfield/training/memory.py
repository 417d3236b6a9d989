"""Maintain the embedding memory of a batching: fill it when due, and update it with each step's embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.batching import Batching
from levelfield.errors import BadInput
from levelfield.methods import Batch
from levelfield.objectives import Objective


class Filler:
    """Maintains the memory of `batching`, if it has one.

    embed: raw rows of all training images in the order of the data, in evaluation mode and under the test view.
    unit: whether the loss uses rows of length 1 (see `sees_unit_rows`); the memory then stores such rows.
    """

    def __init__(self, batching: Batching, embed: Callable[[], np.ndarray] | None, *, unit: bool) -> None:
        self.batching, self._embed, self._unit = batching, embed, unit

    def fill_if_due(self, epoch: int) -> None:
        """Embed all images if the plan of `epoch` needs it."""
        if not self.batching.is_due(epoch):
            return
        if self._embed is None:
            raise BadInput(
                f"Batching '{self.batching.name}' plans from embeddings of all images: pass `embed` to the feed to "
                "compute them."
            )
        self.batching.fill(self._seen(torch.from_numpy(self._embed())))

    def observe(self, batch: Batch, rows: Tensor | None) -> None:
        """Store the rows of a step in the memory."""
        if not self.batching.needs_memory:
            return
        if rows is None or len(rows) != len(batch.indices):
            came = "no embedding" if rows is None else f"{len(rows)} embeddings"
            raise BadInput(
                f"Batching '{self.batching.name}' needs an embedding of each of the {len(batch.indices)} "
                f"images of a batch, but the method's step returned {came}."
            )
        self.batching.observe(batch.indices, self._seen(rows))

    def _seen(self, rows: Tensor) -> np.ndarray:
        found: np.ndarray = (functional.normalize(rows.float(), dim=1) if self._unit else rows.float()).cpu().numpy()
        return found


def sees_unit_rows(objective: nn.Module | None) -> bool:
    """Whether an objective uses rows of length 1. A user's own loss gets the raw embeddings.

    >>> from levelfield import objectives
    >>> names = ("margin", "n_pair", "proxy_anchor", "softmax")
    >>> [sees_unit_rows(objectives.create(name, num_classes=3, dim=4)) for name in names]
    [True, False, True, False]
    """
    return bool(getattr(objective, "normalize", isinstance(objective, Objective)))
