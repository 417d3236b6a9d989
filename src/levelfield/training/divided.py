"""An embedder whose batch is divided among processes, and into pieces that are in memory one at a time.

Two passes (GradCache, Gao et al. 2021): embed piece by piece without a graph; the loss of all rows gives the gradient
of each row; embed each piece again, with a graph, and pass its rows' gradients on. The gradients equal those of the
undivided batch, for every loss, because a row depends on its own image only. Memory: the graph of one piece, and the
rows of the whole batch. Time: one more forward pass, and none if there is one piece per process, whose graph is kept.
Then rows may also depend on each other by BatchNorm, whose statistics are those of the whole batch. `Passes` says
whether a step needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from levelfield.distributed.gathering import exchange
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.embedder import Embedder, Trunk
from levelfield.embedder.trunk.blockwise import BATCH_NORM
from levelfield.embedder.trunk.trunk import Change
from levelfield.errors import BadSpecification
from levelfield.methods import Batch, Inputs, Method
from levelfield.randomness import isolated
from levelfield.training.audit import check_leaves
from levelfield.training.batch_norm import common_statistics
from levelfield.training.conditions import Conditions
from levelfield.training.shards import Shards

Outputs = tuple[Tensor, ...]
_SEEDS = 2**62


@dataclass
class _Call:
    """One call of the embedder: how to repeat it, and the rows that the loss was computed from."""

    pieces: list[Inputs]
    number: int  # names its random numbers
    how: dict[str, Any]
    start: int  # the first row of this process in the batch
    graph: Outputs | None  # of this process's rows; None: to be computed again
    leaves: Outputs  # of all processes' rows


class Divided(nn.Module):
    """Call it like the embedder, with the inputs of this process: it returns the rows of the whole batch.

    After the loss, call `backward(loss)` instead of `loss.backward()`, then `sum_gradients()` if there are several
    processes. Random numbers of the network (dropout) are independent between pieces and processes, and the second
    pass repeats those of the first.

    pieces: number of pieces that this process divides its rows into.
    trained: the parameters that `sum_gradients` sums: the network's and those of the loss that all processes have.

    >>> network, images = nn.Linear(3, 2), torch.randn(6, 3)
    >>> divided = Divided(network, pieces=3)
    >>> divided.backward(divided(images).square().sum())
    >>> gradient = network.weight.grad.clone()
    >>> network.zero_grad()
    >>> network(images).square().sum().backward()
    >>> torch.allclose(gradient, network.weight.grad, rtol=1e-4, atol=1e-5)
    True
    """

    def __init__(
        self, embedder: nn.Module, *, pieces: int = 1, ranks: Ranks = ALONE, trained: Iterable[nn.Parameter] = ()
    ) -> None:
        super().__init__()
        self._embedder, self._pieces, self._ranks = embedder, pieces, ranks
        self._trained = list(trained)
        self._calls: list[_Call] = []
        self._taken: Any = None
        self._kind: Callable[..., Any] = tuple
        self._sizes: list[int] | None = None

    def taken(self) -> Any:
        """Intermediate results of the head in the last call (see `RelationHead.taken`), of the whole batch."""
        taken, self._taken = self._taken, None
        return taken

    def begin(self, sizes: Sequence[int]) -> None:
        """Begin a step; `sizes[r]` is the number of rows on rank r. Without it, each call exchanges the sizes."""
        self._sizes = list(sizes)
        self._calls = []

    def forward(self, inputs: Inputs, *, change: Change | None = None) -> Tensor:
        count = _length(inputs)
        sizes = self._ranks.counts(count) if self._sizes is None else self._sizes
        number = int(torch.randint(_SEEDS, ()))  # equal on all processes: their common generator is in the same state
        pieces = list(_pieces(inputs, count, self._pieces))
        for name, module in self._embedder.named_modules() if self._pieces > 1 else ():
            if isinstance(module, BATCH_NORM) and module.training:
                raise BadSpecification(
                    f"The layer '{name}' ({type(module).__name__}) computes statistics over all images of a batch, so "
                    "that the batch cannot be embedded in pieces. Set accumulate: 1, or the layer to eval mode."
                )
        how = {} if change is None else {"change": (change[0], self._everywhere(change[1], sizes))}
        learns = torch.is_grad_enabled()
        if len(pieces) == 1:
            local = graph = self._outputs(pieces[0], number, 0, how)
        else:
            with torch.no_grad():
                parts = [self._outputs(piece, number, k, how) for k, piece in enumerate(pieces)]
            local, graph = tuple(torch.cat(each) for each in zip(*parts, strict=True)), None
        if self._trunk is not None:
            self._trunk.counter.add(sum(sizes) - count, changed=change is not None)
        whole = tuple(self._ranks.gathered(output.detach(), sizes) for output in local)
        if learns:
            leaves = tuple(output.requires_grad_(output.is_floating_point()) for output in whole)
            self._calls.append(_Call(pieces, number, how, sum(sizes[: self._ranks.rank]), graph, leaves))
            whole = tuple(leaf.clone() for leaf in leaves)  # a step may write into its rows
        if len(whole) > 1:
            self._taken = self._kind(*whole[1:])
        return whole[0]

    def roots(self) -> Iterator[Tensor]:
        """The tensors that carry gradients from the loss to the network, and the rows whose graph is kept."""
        for call in self._calls:
            yield from call.leaves
            yield from call.graph or ()

    def backward(self, loss: Tensor) -> None:
        """The gradients of `loss`: of its own parameters, then of the network by its rows."""
        before = [parameter.grad for parameter in self._trained]
        if not self._ranks.first:
            for parameter in self._trained:
                parameter.grad = None
        loss.backward()
        if not self._ranks.first:  # the loss gives parameters the same gradient on all processes: it counts once
            for parameter, gradient in zip(self._trained, before, strict=True):
                parameter.grad = gradient
        calls, self._calls = self._calls, []
        for call in calls:
            self._continue(call)

    def sum_gradients(self) -> None:
        """Sum the gradients over the processes. A parameter without gradient on every process stays without."""
        any_gradient = self._ranks.any([parameter.grad is not None for parameter in self._trained])
        for parameter, has_gradient in zip(self._trained, any_gradient, strict=True):
            if has_gradient and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._ranks.summed_([p.grad for p in self._trained if p.grad is not None])

    def _continue(self, call: _Call) -> None:
        """Pass the gradients of this process's rows on to the network."""
        start = call.start
        for k, piece in enumerate(call.pieces):
            stop = start + _length(piece)
            outputs = call.graph
            if outputs is None:
                outputs = self._outputs(piece, call.number, k, call.how)
                if self._trunk is not None:  # its rows were counted the first time
                    self._trunk.counter.add(-_length(piece), changed="change" in call.how)
            gradients = {
                output: leaf.grad[start:stop]
                for output, leaf in zip(outputs, call.leaves, strict=True)
                if leaf.grad is not None and output.requires_grad
            }
            if gradients:
                torch.autograd.backward(list(gradients), list(gradients.values()))
            start = stop

    def _outputs(self, inputs: Inputs, number: int, piece: int, how: dict[str, Any]) -> Outputs:
        """The rows, then the intermediate results of a head that keeps some."""
        with isolated(number, "rank", self._ranks.rank, "piece", piece), common_statistics(self._ranks):
            rows: Tensor = self._embedder(inputs, **how)
        head: Any = getattr(self._embedder, "head", None)
        if not (hasattr(head, "taken") and head.training):
            return (rows,)
        taken = head.taken()
        self._kind = type(taken)
        return (rows, *taken)

    def _everywhere(self, change: Callable[[Tensor], Tensor], sizes: list[int]) -> Callable[[Tensor], Tensor]:
        """A change of the whole batch's hidden states, called with those of this process."""
        if self._pieces > 1:
            raise BadSpecification(
                "A method that changes hidden states of the whole batch, such as mixup, cannot embed it in pieces. "
                "Set accumulate: 1."
            )
        start, count = sum(sizes[: self._ranks.rank]), sizes[self._ranks.rank]
        return lambda hidden: change(exchange(hidden, self._ranks, sizes)).narrow(0, start, count)

    @property
    def _trunk(self) -> Trunk | None:
        """The trunk that counts its rows; None for a network of another kind."""
        trunk = getattr(self._embedder, "trunk", None)
        return trunk if isinstance(trunk, Trunk) else None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or not hasattr(self._embedder, name):
                raise
            if name in ("trunk", "head"):
                return getattr(self._embedder, name)
            raise BadSpecification(
                f"This method uses `embedder.{name}`, which has only a part of the batch if the batch is divided. "
                "Call `embedder(batch.inputs)`, or set accumulate: 1 and processes: 1."
            ) from None


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


def _pieces(inputs: Inputs, count: int, pieces: int) -> Iterator[Inputs]:
    """At most `pieces` slices of the rows, equal but for one row."""
    pieces = min(pieces, max(1, count))
    for rows in (Ranks(k, pieces).share(count) for k in range(pieces)):
        yield inputs[rows] if isinstance(inputs, Tensor) else tuple(part[rows] for part in inputs)


def _length(inputs: Inputs) -> int:
    return len(inputs) if isinstance(inputs, Tensor) else len(inputs[0])
