"""The last output rows of the embedder, for batchings with a memory and to detect a collapse."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from levelfield.evaluation import spectral_decay

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
