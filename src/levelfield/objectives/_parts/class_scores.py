"""Scores of a batch against one vector per class, in chunks of classes that fit in the cache.

Closed forms of the objectives with proxies. The class vectors are never normalised: scores are divided by their
lengths, and the projection of the gradient is computed from the scores. Peak memory: the gradient of the class vectors
(C, d), a few chunks, and the scores (C, b) if they are stored (`filled`) instead of computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.geometry import lengths_of
from levelfield.labels import on_device, on_host, to_device
from levelfield.objectives._contract import LossInputs
from levelfield.objectives._parts.closed import LOG2_E, attached, through_unit

AT_ONCE = 1024  # class vectors in a chunk
LOWEST = -1e30  # below every score, but finite: differences of infinities are NaN


class Chunk(NamedTuple):
    """A chunk of classes: `vectors` are their rows of the matrix, `targets` the entries of samples with their class."""

    vectors: slice
    targets: tuple[Tensor, Tensor]  # (class within the chunk, sample)


class ClassScores:
    """Cosines of rows and class vectors: stored in `matrix` (C, b) by `filled`, or computed chunk by chunk.

    per_class: number of consecutive vectors of each class.
    elsewhere: whether rows can have the label -1, of a class that is not among the vectors.

    >>> scores = ClassScores(torch.eye(2), torch.tensor([[3.0, 4.0]]), torch.tensor([0, 0]))
    >>> scores.filled().matrix
    tensor([[0.6000, 0.8000]])
    """

    matrix: Tensor

    def __init__(
        self, rows: Tensor, vectors: Tensor, labels: Tensor, *, per_class: int = 1, elsewhere: bool = False
    ) -> None:
        rows, self.vectors = rows.detach(), vectors.detach()
        self.lengths = lengths_of(rows)
        self.rows = rows / self.lengths
        self.inverse = rows.new_empty(len(vectors), 1)  # 1 / length of each vector
        self.labels, self.per_class = labels, per_class
        self.step = per_class * max(1, AT_ONCE // per_class)
        self.here: Tensor | slice = slice(None)
        """The rows whose class is among the vectors."""
        self.here_labels = labels
        if elsewhere:
            here = (on_host(labels) >= 0).nonzero()[:, 0]
            self.here, self.here_labels = to_device(here, rows.device), on_device(on_host(labels)[here], rows.device)
        self.chunks = self._chunks(elsewhere)
        self._latest: Tensor | None = None

    def _chunks(self, elsewhere: bool) -> list[Chunk]:
        labels, step = self.labels, self.step
        if len(self.vectors) <= step and not elsewhere:
            return [Chunk(slice(0, step), (labels, torch.arange(len(labels), device=labels.device)))]
        ordered, order = on_host(labels).sort(stable=True)
        starts = range(0, len(self.vectors) + step, step)
        bounds = torch.searchsorted(ordered, torch.tensor(starts) // self.per_class).tolist()
        ordered, order = to_device(ordered, labels.device), to_device(order, labels.device)
        return [
            Chunk(slice(start, start + step), (ordered[low:high] - start // self.per_class, order[low:high]))
            for start, (low, high) in zip(starts, pairwise(bounds), strict=False)
        ]

    def filled(self) -> ClassScores:
        """Compute and store all scores."""
        self.matrix = self.rows.new_empty(len(self.vectors), len(self.rows))
        for chunk in self.chunks:
            self.compute(chunk, self.matrix[chunk.vectors])
        return self

    def block(self, chunk: Chunk) -> Tensor:
        """The chunk's scores (vectors, b): stored, or computed in a buffer that the next chunk overwrites."""
        if hasattr(self, "matrix"):
            return self.matrix[chunk.vectors]
        if self._latest is None:
            self._latest = self.buffer()
        return self.compute(chunk, self._latest[: len(self.vectors[chunk.vectors])])

    def compute(self, chunk: Chunk, out: Tensor) -> Tensor:
        """Write the chunk's scores to `out` (vectors, b)."""
        vectors = self.vectors[chunk.vectors]
        torch.mm(vectors, self.rows.T, out=out)
        out *= torch.reciprocal(lengths_of(vectors), out=self.inverse[chunk.vectors])
        return out

    def buffer(self) -> Tensor:
        """Buffer for one chunk, reused by all chunks: allocating memory costs more than the computation."""
        return self.rows.new_empty(min(self.step, len(self.vectors)), len(self.rows))


class Gradients:
    """Gradients of the raw rows and the raw class vectors, accumulated chunk by chunk."""

    def __init__(self, scores: ClassScores, gradient: Tensor | float) -> None:
        self.scores, self.gradient = scores, gradient
        self._rows = torch.zeros_like(scores.rows)
        self._scaled_rows = scores.rows * gradient  # scale these instead of the larger gradient of the vectors
        self.vectors = torch.empty_like(scores.vectors)
        self._scratch = scores.buffer()

    def add(self, chunk: Chunk, values: Tensor, weights: Tensor, inward: Tensor | None = None) -> Tensor:
        """Add a chunk with scores `values` and their derivatives `weights` (overwritten); return its vectors' gradient.

        inward: further projection to subtract along each vector (vectors, 1).
        """
        vectors, slope = self.scores.vectors[chunk.vectors], self.vectors[chunk.vectors]
        inverse = self.scores.inverse[chunk.vectors]
        along = torch.mul(weights, values, out=self._scratch[: len(values)]).sum(1, keepdim=True)
        along = along if inward is None else along + inward
        weights *= inverse
        torch.mm(weights, self._scaled_rows, out=slope)
        slope.addcmul_(along * inverse * inverse * self.gradient, vectors, value=-1)
        self._rows.addmm_(weights.T, vectors)
        return slope

    def times_(self, gradient: Tensor) -> Gradients:
        """Rescale the gradients, accumulated with upstream gradient 1, to another upstream gradient."""
        if gradient.device.type != "cpu" or gradient != 1:  # reading it elsewhere would synchronise with the device
            self.vectors *= gradient
        self.gradient = gradient
        return self

    @property
    def rows(self) -> Tensor:
        return through_unit(self._rows * self.gradient, self.scores.rows, self.scores.lengths)


def log_sum_of_others(
    scores: ClassScores, scale: float, pool: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """For each sample, the score of its class (0 if it is elsewhere) and log2 sum_{c != y} e^(scale s_c).

    pool: computes the scores of a chunk's classes from those of its vectors.
    """
    target = scores.rows.new_zeros(len(scores.rows))
    top, sums, scratch = torch.full_like(target, LOWEST), torch.zeros_like(target), scores.buffer()
    for chunk in scores.chunks:
        block = scores.block(chunk)
        block = block if pool is None else pool(block)
        held = block[chunk.targets]
        target[chunk.targets[1]] = held
        block[chunk.targets] = -torch.inf
        higher = torch.maximum(top, block.amax(0) * (scale * LOG2_E))
        sums.mul_((top - higher).exp2_())
        sums += torch.add(-higher, block, alpha=scale * LOG2_E, out=scratch[: len(block)]).exp2_().sum(0)
        block[chunk.targets] = held
        top = higher
    return target, top + sums.log2_()


def differentiable(value: Tensor, inputs: LossInputs, vectors: Tensor, back: Callable[[Tensor], Gradients]) -> Tensor:
    """Attach to `value` the gradients that `back(upstream gradient)` computes."""

    def slopes(upstream: Tensor) -> list[Tensor | None]:
        gradients = back(upstream)
        return [gradients.rows if inputs.embeddings.requires_grad else None, gradients.vectors]

    return attached(value, [inputs.embeddings, vectors], slopes)
