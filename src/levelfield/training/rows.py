"""The rows that came out of the embedder last: for batchings with a memory, and to see a collapse."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from levelfield.embedder import Embedder

COLLAPSE = 1e-4  # a spread below this: all rows point the same way, or nowhere; 1 is the widest


@contextmanager
def latest_rows(embedder: Embedder) -> Iterator[deque[Tensor]]:
    """Inside, the one entry is what came out of the embedder last; whoever took it may clear it."""
    latest: deque[Tensor] = deque(maxlen=1)
    hook = embedder.register_forward_hook(lambda module, inputs, rows: latest.append(rows.detach()))
    try:
        yield latest
    finally:
        hook.remove()


def spread_of(rows: Tensor | None) -> float:
    """Mean squared distance of the unit rows to their centre: 0 when all point the same way, or nowhere."""
    if rows is None:
        return 1.0
    unit = nn.functional.normalize(rows.float(), dim=1)
    return (unit.square().sum(1).mean() - unit.mean(0).square().sum()).item()
