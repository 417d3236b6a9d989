"""The output rows of a step: for the memory of a batching, and to detect a collapse."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.batching import Batching
from levelfield.errors import BadInput
from levelfield.evaluation import spectral_decay
from levelfield.methods import Batch
from levelfield.objectives import Objective

COLLAPSE = 1e-4  # a spread below this means that all rows point in the same direction or are zero; the maximum is 1


@contextmanager
def latest_rows(embedder: nn.Module) -> Iterator[deque[Tensor]]:
    """Context whose list holds the last output of the embedder; the reader may clear it."""
    latest: deque[Tensor] = deque(maxlen=1)
    hook = embedder.register_forward_hook(lambda module, inputs, rows: latest.append(rows.detach()))
    try:
        yield latest
    finally:
        hook.remove()


def spread_of(rows: Tensor | None) -> float:
    """Mean squared distance of the unit rows to their centre: 0 if all point in the same direction or are zero."""
    if rows is None:
        return 1.0
    unit = nn.functional.normalize(rows.float(), dim=1)
    return (unit.square().sum(1).mean() - unit.mean(0).square().sum()).item()


def decay_of(rows: Tensor | None) -> float | None:
    """Spectral decay rho of one batch's unit rows (roth2020); None without rows or if infinite.

    >>> import torch
    >>> decay_of(torch.eye(3) * 7)
    0.0
    """
    if rows is None:
        return None
    found = spectral_decay(nn.functional.normalize(rows.float(), dim=1))
    return found if math.isfinite(found) else None


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
