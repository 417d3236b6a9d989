"""HIST's hypergraph and its network with the way back written down: every product of matrices once, little beside it.

The equations are those of `_hypergraph`. Logits stand class by class, (C, b): so their products are quicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.objectives._closed import LOG2_E
from levelfield.objectives._distributions import AT_ONCE
from levelfield.objectives._hypergraph import Network


def entropies_(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropies (k,) of k times the logits of a batch (k, C, b), in base 2.

    Over the logits their slopes are written, those of the natural logits and times b.

    >>> logits = torch.tensor([[[0.0, 1000.0], [0.0, 0.0]]])
    >>> entropies_(logits, torch.tensor([0, 1])).mul_(LOG2_E), logits
    (tensor([500.5000]), tensor([[[-0.5000,  1.0000],
             [ 0.5000, -1.0000]]]))
    """
    place = labels.expand(len(logits), 1, -1)
    own, top = logits.gather(1, place), logits.amax(1, keepdim=True)
    powers = logits.sub_(top).exp2_()
    total = powers.sum(1, keepdim=True)
    powers.div_(total).scatter_add_(1, place, torch.full_like(own, -1))
    return total.log2_().add_(top).sub_(own).sum((1, 2)).div_(LOG2_E * len(labels))


class Hypergraph:
    """G of a batch, `matrix` (b, b), from its distances (E, b) to the distributions of its E classes.

    exponents: -alpha D / log 2. places: (b,), which of the classes each sample is of.

    >>> Hypergraph(torch.tensor([[0.0, -torch.inf]]), torch.tensor([0, 0]), alpha=1.0).matrix
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """

    def __init__(self, exponents: Tensor, places: Tensor, *, alpha: float) -> None:
        self.own, self.alpha = places[None], alpha
        self.incidence = exponents.exp2_().scatter_(0, self.own, 1)
        self.degrees, self.sizes = self.incidence.sum(0), self.incidence.sum(1, keepdim=True)
        self.roots = self.degrees.rsqrt()
        self.scaled = self.incidence * self.roots
        self.shared = self.scaled / self.sizes
        self.matrix = self.shared.T.mm(self.scaled)

    def back(self, slope: Tensor) -> Tensor:
        """Slope by the distances from that by G, which they reach twice in the product and by both degrees."""
        of_scaled = self.shared.mm(slope + slope.T)
        moved = of_scaled * self.scaled
        of_incidence = of_scaled.mul_(self.roots).sub_(moved.sum(0).div_(self.degrees), alpha=0.5)
        of_incidence.sub_(moved.sum(1, keepdim=True).div_(self.sizes), alpha=0.5)
        return of_incidence.mul_(self.incidence).mul_(-self.alpha).scatter_(0, self.own, 0)


class Slopes(NamedTuple):
    """Of what went into the network: rows, G and its weights."""

    rows: Tensor
    graph: Tensor
    network: Network


class Classification:
    """`network_logits` class by class and in base 2, written to `out` (C, b), with the way back. Call without autograd.

    G comes where it meets fewer columns, among the classes or among the hidden numbers.
    """

    def __init__(
        self,
        rows: Tensor,
        graph: Tensor,
        weights: Network,
        *,
        out: Tensor,
        negative_slope: float = 0.1,
        bn_eps: float = 1e-5,
    ) -> None:
        self.rows, self.graph, self.weights = rows, graph, weights
        self.negative_slope, self.bn_eps = negative_slope, bn_eps
        theta1, b1, scale, shift, theta2, b2 = weights
        self.first = torch.addmm(b1, rows, theta1.T)
        self.passed = graph.mm(self.first)
        self.normed, *self.statistics = torch.native_batch_norm(
            self.passed, scale, shift, None, None, True, 0.0, bn_eps
        )
        self.hidden = functional.leaky_relu(self.normed, negative_slope)
        self.narrow = len(theta2) < len(theta1)
        if self.narrow:
            self.second = torch.addmm(b2[:, None], theta2, self.hidden.T)  # before G, (C, b)
            torch.addmm(out, self.second, graph, beta=0, alpha=LOG2_E, out=out)
        else:
            self.second, self.sums = graph.mm(self.hidden), graph.sum(1)  # after G, (b, h)
            for logits, weight, bias in _chunks(out, theta2, b2):
                torch.outer(bias, self.sums, out=logits)
                logits.addmm_(weight, self.second.T, beta=LOG2_E, alpha=LOG2_E)

    def back(self, slope: Tensor, factor: Tensor) -> Slopes:
        """From `factor` times the slope by the logits (C, b)."""
        theta1, _, scale, _, theta2, b2 = self.weights
        if self.narrow:
            of_second = slope.mm(self.graph * factor)
            of_graph = slope.T.mm(self.second).mul_(factor)
            of_theta2, of_b2, of_hidden = of_second.mm(self.hidden), of_second.sum(1), of_second.T.mm(theta2)
        else:
            of_second, of_theta2, second = torch.zeros_like(self.second), torch.empty_like(theta2), self.second * factor
            for some, weight, of_weight in _chunks(slope, theta2, of_theta2):
                of_second.addmm_(some.T, weight)
                torch.mm(some, second, out=of_weight)
            of_second, of_b2 = of_second.mul_(factor), slope.mv(self.sums * factor)
            of_graph = torch.addmm(slope.T.mv(b2).mul_(factor)[:, None], of_second, self.hidden.T)
            of_hidden = self.graph.mm(of_second)
        torch.ops.aten.leaky_relu_backward.grad_input(
            of_hidden, self.normed, self.negative_slope, False, grad_input=of_hidden
        )
        of_passed, of_scale, of_shift = torch.ops.aten.native_batch_norm_backward(
            of_hidden, self.passed, scale, None, None, *self.statistics, True, self.bn_eps, [True, True, True]
        )
        of_graph.addmm_(of_passed, self.first.T)
        of_first = self.graph.mm(of_passed)
        weights = Network(of_first.T.mm(self.rows), of_first.sum(0), of_scale, of_shift, of_theta2, of_b2)
        return Slopes(of_first.mm(theta1), of_graph, weights)


def _chunks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Their rows, so many at a time as a product is quickest with."""
    return zip(*(tensor.split(AT_ONCE) for tensor in tensors), strict=True)
