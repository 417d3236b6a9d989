"""How a step gets its gradients: in one pass over the batch or its parts, or in two passes over a divided batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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


class Passes:
    """One pass if this process sees the whole batch, or if the loss is a mean over its parts; otherwise two, see
    `Divided`. If `accumulate` cannot divide the batch (see `Conditions.pieces`), the network is computed in blocks.

    embedder: for the method's step. count: number of parts whose losses are averaged.
    """

    def __init__(
        self,
        embedder: Embedder,
        method: Method,
        conditions: Conditions,
        optimisers: Sequence[Optimizer],
        ranks: Ranks,
        shards: Shards,
    ) -> None:
        pieces = conditions.pieces
        embedder.trunk.blockwise = partial(common_statistics, ranks) if conditions.accumulate > pieces else None
        self._optimisers, self._ranks = optimisers, ranks
        self.embedder: nn.Module = embedder
        self._divided: Divided | None = None
        self.count = pieces
        if ranks.size > 1 or (pieces > 1 and not method.separable):
            trained = [p for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
            summed = [parameter for parameter in trained if parameter not in shards]
            self.embedder = self._divided = Divided(embedder, pieces=pieces, ranks=ranks, trained=summed)
            self.count = 1

    def parts(self, batch: Batch) -> list[Batch]:
        """The parts of the batch, each for one call of the method's step."""
        if self._divided is not None:
            self._divided.begin(self._ranks.sizes(len(batch.labels)))
        return batch.parts(self.count)

    def check_leaves(self, loss: Tensor) -> None:
        """Check that the loss depends on no trainable tensor that is in no optimiser group."""
        roots = [] if self._divided is None else list(self._divided.roots())
        for tensor in (loss, *roots):
            check_leaves(tensor, self._optimisers, known=roots)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a part's loss."""
        if self._divided is None:
            loss.backward()
        else:
            self._divided.backward(loss)

    def finish(self) -> None:
        """Complete the gradients of the step."""
        if self._divided is not None:
            self._divided.sum_gradients()
