"""Cross-batch memory (XBM, Wang et al. 2020): compares the batch also with rows of earlier batches."""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from levelfield.errors import BadInput, BadSpecification
from levelfield.labels import on_device, on_host, remember
from levelfield.objectives._contract import LossInputs, Objective, registry
from levelfield.settings import Count, Natural

MAX_ROWS = 1_000_000  # a typing error must not exhaust memory


class CrossBatchMemory(Objective):
    """`objective` on the tuples whose anchors are in the batch and whose partners are in a queue of the latest rows.

    Each call (Wang et al. 2020, algorithm 1; pytorch-metric-learning's CrossBatchMemory):

    1. Adds the batch's raw rows and labels to the queue as constants and drops the oldest rows beyond `size`.
    2. Computes the wrapped loss of the batch's rows, as anchors, against the whole queue, with its miner or all tuples.
       An anchor is not compared with its own copy, but with the copies of the rest of its batch.

    The gradient flows only through the anchors. So in the first call the loss equals the plain one, but its gradient
    lacks the part that a row gets as a partner of others: with pairs in both orders, half of it.

    start: number of initial calls with the plain objective and without storing rows: while the network changes fast,
    rows are soon out of date (Wang et al. first train without the memory).

    In evaluation mode (`eval()`) no rows are stored either. The queue is part of `state_dict`. size: at least the batch
    size. dim: width of the rows. Memory: O(batch * size); triplets of `miner="all"` are not listed.

    >>> from levelfield import objectives
    >>> memory = CrossBatchMemory(objectives.create("contrastive", miner="all"), size=8, dim=4)
    >>> rows, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> memory(rows, labels), memory(rows, labels)  # the second time a third of the positives are the rows themselves
    (tensor(1.4142), tensor(0.9428))
    """

    rows: Tensor
    labels: Tensor
    counts: Tensor

    def __init__(
        self, objective: nn.Module, *, dim: Count, size: Annotated[int, Ge(2), Le(MAX_ROWS)] = 1024, start: Natural = 0
    ) -> None:
        super().__init__()
        if not (isinstance(objective, Objective) and objective.facts.memory):
            fitting = ", ".join(name for name in registry.names() if registry.facts(name).memory)
            name = getattr(getattr(objective, "facts", None), "name", "") or type(objective).__name__
            raise BadSpecification(f"'memory' cannot be combined with '{name}'. Use it with {fitting}.")
        self.objective = objective
        self.facts = objective.facts  # type: ignore[misc]
        self.dim, self.num_classes = dim, objective.num_classes
        self.size, self.start = size, start
        self.register_buffer("rows", torch.zeros(size, dim))
        self.register_buffer("labels", torch.full((size,), -1))
        self.register_buffer("counts", torch.zeros(2, dtype=torch.int64))  # calls so far, rows in the queue
        self.register_load_state_dict_post_hook(_forget_copies)  # type: ignore[no-untyped-call]

    def loss_of(self, inputs: LossInputs) -> Tensor:
        """The loss; in training mode the batch is stored."""
        if inputs.tuples is not None:
            raise BadInput("A cross-batch memory chooses tuples from batch and memory itself; it takes no tuples.")
        calls, held = on_host(self.counts).tolist()
        if calls >= self.start:
            inputs = self._against_queue(inputs, held)
        loss = self.objective.loss_of(inputs)
        for name in ("active", "logged_terms", "switched"):
            setattr(self, name, getattr(self.objective, name))
        if self.training:
            self._remember(inputs, calls, held)
        return loss

    def check_batch(self, rows: int) -> None:
        """Refuse a batch larger than the queue."""
        if rows > self.size:
            raise BadInput(
                f"A memory of {self.size} rows got a batch of {rows}: the memory must be at least as large as the "
                "batch."
            )

    def reset(self) -> None:
        """Empty the memory."""
        self.rows = torch.zeros_like(self.rows)
        self.labels, self.counts = torch.full_like(self.labels, -1), torch.zeros_like(self.counts)

    @property
    def learned_buffers(self) -> int:
        calls, held = on_host(self.counts).tolist()
        return (self.counts.numel() if calls else 0) + (self.rows.numel() + self.labels.numel() if held else 0)

    def lr_multipliers(self) -> dict[str, float]:
        return {f"objective.{name}": rate for name, rate in self.objective.lr_multipliers().items()}

    def optimisers(self) -> dict[str, str]:
        return {f"objective.{name}": optimiser for name, optimiser in self.objective.optimisers().items()}

    def part_of(self, parameter: str) -> str:
        return self.objective.part_of(parameter.removeprefix("objective."))

    @property
    def normalize(self) -> bool:
        return bool(getattr(self.objective, "normalize", True))

    @property
    def separable(self) -> bool:
        return False

    def _against_queue(self, inputs: LossInputs, held: int) -> LossInputs:
        batch = inputs.embeddings
        self.check_batch(len(batch))
        older = min(held, self.size - len(batch))
        if self.rows.dtype != batch.dtype or self.rows.device != batch.device:
            self.rows, self.labels = self.rows.to(batch), self.labels.to(batch.device)
        labels = torch.cat((inputs.labels, self.labels[:older]))
        host = torch.cat((on_host(inputs.labels), on_host(self.labels)[:older]))
        return inputs._replace(columns=torch.cat((batch.detach(), self.rows[:older])), labels=remember(labels, host))

    @torch.no_grad()
    def _remember(self, inputs: LossInputs, calls: int, held: int) -> None:
        if inputs.columns is not None:  # newest first
            held, host = len(inputs.columns), on_host(self.labels)
            self.rows[:held], self.labels[:held] = inputs.columns, inputs.labels
            if host is not self.labels:
                host[:held] = on_host(inputs.labels)
                remember(self.labels, host)
        self.counts = on_device(torch.tensor([calls + 1, held]), self.counts.device)


def _forget_copies(memory: CrossBatchMemory, keys: object) -> None:
    """Loading writes into the buffers: their copies on the host are out of date."""
    memory.labels, memory.counts = memory.labels.clone(), memory.counts.clone()
