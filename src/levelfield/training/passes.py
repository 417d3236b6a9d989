"""How a step gets its gradients: in one pass over the batch or its parts, or in two passes over a divided batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.distributed.ranks import Ranks
from levelfield.embedder import Embedder
from levelfield.methods import Batch, Method
from levelfield.training.audit import check_leaves
from levelfield.training.batch_norm import common_statistics
from levelfield.training.conditions import Conditions
from levelfield.training.divided import Divided
from levelfield.training.shards import Shards


class Passes(Protocol):
    """What the loop asks about a batch: its parts, the embedder for their losses, and the gradients."""

    embedder: nn.Module
    """What a method's step calls."""
    count: int
    """Number of parts whose losses are averaged."""

    def parts(self, batch: Batch) -> list[Batch]: ...

    def check_leaves(self, loss: Tensor) -> None:
        """Check that the loss depends on no trainable tensor that is in no optimiser group."""

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a part's loss."""

    def finish(self) -> None:
        """Complete the gradients of the step."""


def passes_for(
    embedder: Embedder,
    method: Method,
    conditions: Conditions,
    optimisers: Sequence[Optimizer],
    ranks: Ranks,
    shards: Shards,
) -> Passes:
    """One pass if this process sees the whole batch, or if the loss is a mean over its parts; otherwise two.

    If `accumulate` cannot divide the batch (see `Conditions.pieces`), the network is computed block by block.
    """
    pieces = conditions.pieces
    embedder.trunk.blockwise = partial(common_statistics, ranks) if conditions.accumulate > pieces else None
    if ranks.size == 1 and (pieces == 1 or method.separable):
        return OnePass(embedder, optimisers, pieces)
    return TwoPasses(embedder, optimisers, pieces, ranks, shards)


class OnePass:
    """The loss of the batch, or of equal parts one after another if it is the mean of theirs."""

    def __init__(self, embedder: nn.Module, optimisers: Sequence[Optimizer], count: int) -> None:
        self.embedder, self.count, self._optimisers = embedder, count, optimisers

    def parts(self, batch: Batch) -> list[Batch]:
        return batch.parts(self.count)

    def check_leaves(self, loss: Tensor) -> None:
        check_leaves(loss, self._optimisers)

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def finish(self) -> None:
        pass


class TwoPasses:
    """The loss of the whole batch; its rows are computed by several processes, in pieces, see `Divided`."""

    count = 1

    def __init__(
        self, embedder: nn.Module, optimisers: Sequence[Optimizer], pieces: int, ranks: Ranks, shards: Shards
    ) -> None:
        trained = [p for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
        summed = [parameter for parameter in trained if parameter not in shards]
        self._divided = Divided(embedder, pieces=pieces, ranks=ranks, trained=summed)
        self.embedder: nn.Module = self._divided
        self._optimisers, self._ranks = optimisers, ranks

    def parts(self, batch: Batch) -> list[Batch]:
        self._divided.begin(self._ranks.sizes(len(batch.labels)))
        return [batch]

    def check_leaves(self, loss: Tensor) -> None:
        roots = list(self._divided.roots())
        for tensor in (loss, *roots):
            check_leaves(tensor, self._optimisers, known=roots)

    def backward(self, loss: Tensor) -> None:
        self._divided.backward(loss)

    def finish(self) -> None:
        self._divided.sum_gradients()


@contextmanager
def latest_rows(embedder: nn.Module) -> Iterator[deque[Tensor]]:
    """Context whose list holds the last output of the embedder; the reader may clear it."""
    latest: deque[Tensor] = deque(maxlen=1)
    hook = embedder.register_forward_hook(lambda module, inputs, rows: latest.append(rows.detach()))
    try:
        yield latest
    finally:
        hook.remove()
