"""A network whose graph is in memory one block at a time, for layers that need the whole batch at once.

Gradient checkpointing (Chen et al. 2016): the forward pass keeps the inputs of the blocks, and the backward pass
computes each block again. The result has the same bits; BatchNorm updates its running statistics only the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Context = Callable[[], AbstractContextManager[object]]
BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""Layers whose output depends, in training, on the other images of the batch."""


def blocks_of(piece: nn.Module) -> list[nn.Module]:
    """The blocks that a piece of a network calls one after another; the piece itself if it is no sequence of blocks."""
    parts = list(piece) if type(piece) is nn.Sequential else []
    return parts if parts and all(any(part.children()) for part in parts) else [piece]


def by_blocks(piece: nn.Module, maps: Tensor, context: Context) -> Tensor:
    """`piece(maps)`; what gradients need is computed again in the backward pass, a block at a time.

    context: in which a block is computed again, because the backward pass may run in another thread.
    """
    for block in blocks_of(piece):
        contexts = lambda block=block: (nullcontext(), _again(block, context))  # noqa: E731
        maps = checkpoint(block, maps, use_reentrant=False, context_fn=contexts)
    return maps


@contextmanager
def _again(block: nn.Module, context: Context) -> Iterator[None]:
    """Context of the second time: BatchNorm layers update copies of their running statistics."""
    norms = [part for part in block.modules() if isinstance(part, BATCH_NORM) and part.training]
    kept = [(norm, name, buffer) for norm in norms for name, buffer in norm.named_buffers(recurse=False)]
    for norm, name, buffer in kept:
        setattr(norm, name, buffer.clone())
    try:
        with context():
            yield
    finally:
        for norm, name, buffer in kept:
            setattr(norm, name, buffer)
