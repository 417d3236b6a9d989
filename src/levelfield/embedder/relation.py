"""The head of DRML (zheng2021): K small networks on blocks of the features, and a relation network that joins them.

This follows the released code (the supplement has no equations). x_k is a block of the features, e = dim / K:

    n_k = unit(node_k(x_k))                                  a node of e numbers
    r_ik = mean((x_k - decoder_k(n_k))^2)                    both without gradient: it teaches the decoders only
    S_iab = relu(score(A_a(x_a) - B_b(x_b))) / sum over a    edges from a to b, blocks without gradient, 0/0 = 0
    g_b = integrator([n_b, sum_a S_iab n_a])                 and the row is g_1 ... g_K, not normalised

Matrix products: the nodes (batch, F/K) x (F/K, e) and the decoders, K times each, and the integrator (K batch, e) x (e,
2 e); A and B only as vectors, because `score` is linear: score(A_a - B_b) = A_a' w x_a - B_b' w x_b. In the backward
pass the nodes and decoders need one product each for their weights (and the nodes one for the features, if the trunk
trains), the integrator two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from levelfield.embedder.linear import whitened_components
from levelfield.errors import BadSpecification
from levelfield.geometry import TINY, working
from levelfield.settings import Count, checked


class Steps(NamedTuple):
    """Intermediate results of one call of the head, with gradients."""

    nodes: Tensor  # (batch, K, e), unit rows
    errors: Tensor  # (batch, K): reconstruction error of each branch
    edges: Tensor  # (batch, K, K): from branch a to branch b
    final: Tensor  # (batch, dim)

    @property
    def assignment(self) -> Tensor:
        """(batch,): the branch that decodes best; the first one on ties."""
        return self.errors.detach().argmin(1)


class Branches(nn.Module):
    """Branches with equally wide blocks, batched: weights are (branches, in, out)."""

    def __init__(self, count: int, width: int, size: int) -> None:
        super().__init__()
        self.count, self.width = count, width

        def layer(inner: int, outer: int) -> tuple[nn.Parameter, nn.Parameter]:
            """Uninitialised: the head sets the weights, and the global generator is not used."""
            weight, bias = torch.empty(count, inner, outer), torch.empty(count, 1, outer)
            return nn.Parameter(weight), nn.Parameter(bias)

        self.node_weight, self.node_bias = layer(width, size)
        self.sender_weight, self.sender_bias = layer(width, size)  # A
        self.receiver_weight, self.receiver_bias = layer(width, size)  # B
        self.decoder_weight, self.decoder_bias = layer(size, width)

    def nodes(self, blocks: Tensor) -> Tensor:
        """(batch, branches, e) of blocks (branches, batch, width)."""
        raw = working(torch.baddbmm(self.node_bias, blocks, self.node_weight)).transpose(0, 1)
        lengths = torch.linalg.vector_norm(raw, dim=-1, keepdim=True)
        nodes: Tensor = raw / lengths.masked_fill(lengths <= TINY, torch.inf)  # a zero node and its gradient stay 0
        return nodes

    def errors(self, blocks: Tensor, nodes: Tensor) -> Tensor:
        """(branches, batch)."""
        decoded = working(torch.baddbmm(self.decoder_bias, nodes.detach().transpose(0, 1), self.decoder_weight))
        return (decoded - blocks.detach()).square().mean(-1)

    def potentials(self, blocks: Tensor, score: Tensor) -> Tensor:
        """(branches, 2, batch): score' A_a(x_a) and score' B_b(x_b), without computing A_a(x_a)."""
        weights = torch.stack((self.sender_weight @ score, self.receiver_weight @ score), 1)
        biases = torch.stack((self.sender_bias @ score, self.receiver_bias @ score), 1)
        return torch.baddbmm(biases, weights, blocks.detach().transpose(1, 2))


class RelationHead(nn.Module):
    """(rows, width) -> (rows, dim), raw rows. `branches` must divide `dim`; blocks may differ by one.

    In training mode `latest` holds the last call's `Steps` until `taken` is called: a method needs the nodes and errors
    for its losses, and the embedder returns only the rows. Decoders are not used at test time.
    """

    @checked
    def __init__(self, width: int, dim: int, *, branches: Count = 4) -> None:
        super().__init__()
        self.width, self.dim, self.branches = width, dim, branches
        self.check_sizes(dim, self.branches)
        if width < self.branches:
            raise BadSpecification(f"{width} features cannot be split into {self.branches} branches.")
        size, (narrow, wider) = dim // self.branches, divmod(width, self.branches)
        groups = [(wider, narrow + 1), (self.branches - wider, narrow)]  # like torch.tensor_split: wider ones first
        self.parts: Sequence[Branches] = nn.ModuleList(  # type: ignore[assignment]
            Branches(count, block, size) for count, block in groups if count
        )
        self.score_weight = nn.Parameter(torch.empty(size))
        self.score_bias = nn.Parameter(torch.empty(1))
        self.integrator_weight = nn.Parameter(torch.empty(size, 2 * size))  # (in, [to the same g, to the others])
        self.integrator_bias = nn.Parameter(torch.empty(size))
        self.latest: Steps | None = None
        start_relation(self, torch.Generator().manual_seed(0))

    @staticmethod
    def check_sizes(dim: int, branches: int) -> None:
        """Refuse a number of branches that does not divide `dim`, and name the nearest that does."""
        if dim % branches:
            fits = min((k for k in range(1, dim + 1) if dim % k == 0), key=lambda k: abs(k - branches))
            raise BadSpecification(
                f"dim {dim} cannot be divided among {branches} branches: 'branches: {fits}' would fit."
            )

    def forward(self, features: Tensor) -> Tensor:
        blocks = [  # of each part: (branches, rows, width)
            (part, features[:, columns].view(-1, part.count, part.width).transpose(0, 1))
            for part, columns in self._columns()
        ]
        nodes = _joined([part.nodes(x) for part, x in blocks], 1)
        edges = self._edges(_joined([part.potentials(x, self.score_weight) for part, x in blocks]))
        # a message is a weighted sum of nodes, so the integrator can be applied first: once per node
        both = (nodes.flatten(0, 1) @ self.integrator_weight).view(*nodes.shape[:2], 2 * nodes.shape[2])
        nodes_mapped, messages = both.chunk(2, 2)  # (rows, K, e) each
        final = torch.baddbmm(nodes_mapped + self.integrator_bias, edges.transpose(1, 2), messages).flatten(1)
        if self.training:
            shares = nodes.split([part.count for part, _ in blocks], 1)
            errors = [part.errors(x, share) for (part, x), share in zip(blocks, shares, strict=True)]
            self.latest = Steps(nodes, _joined(errors).T, edges, final)
        return final

    def taken(self) -> Steps:
        """Return and drop the steps of the last call in training mode: they hold the graph of a training step."""
        steps, self.latest = self.latest, None
        if steps is None:
            raise BadSpecification("The relation head has no stored steps: call it in training mode first.")
        return steps

    @property
    def settings(self) -> dict[str, object]:
        """The keyword arguments that recreate this head."""
        return {"width": self.width, "dim": self.dim, "branches": self.branches}

    def principal_start(self, features: np.ndarray, *, whiten: float) -> dict[str, np.ndarray]:
        """Initial weights like those of the common head: nodes at the principal components of their blocks.

        features: (rows, width) of the training images. Components are divided by (standard deviation) ** whiten. Only
        the nodes have a counterpart in the common head. The integrator starts as the identity, so the first embeddings
        are the components of the blocks, each block at unit length.
        """
        start_weights: dict[str, np.ndarray] = {}
        for number, (part, columns) in enumerate(self._columns()):
            blocks = np.split(features[:, columns], part.count, axis=1)
            solved = [whitened_components(block, part.node_weight.shape[2], whiten=whiten) for block in blocks]
            start_weights[f"parts.{number}.node_weight"] = np.stack([weight.T for weight, _ in solved])
            start_weights[f"parts.{number}.node_bias"] = np.stack([bias[None] for _, bias in solved])
        return start_weights

    def _columns(self) -> list[tuple[Branches, slice]]:
        """The parts with the columns of their features."""
        ends = accumulate((part.count * part.width for part in self.parts), initial=0)
        return [(part, slice(*pair)) for part, pair in zip(self.parts, pairwise(ends), strict=True)]

    def _edges(self, potentials: Tensor) -> Tensor:
        """(rows, K, K), columns that sum to 1, or to 0 where no edge is positive."""
        sent, received = working(potentials).permute(1, 2, 0).contiguous()  # (rows, K) each
        raw = ((sent + self.score_bias)[:, :, None] - received[:, None, :]).relu()
        total = raw.sum(1, keepdim=True)
        shares: Tensor = raw / total.masked_fill(total <= TINY, torch.inf)
        return shares


def _joined(parts: list[Tensor], dim: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


@torch.no_grad()
def start_relation(head: RelationHead, generator: torch.Generator) -> None:
    """He-normal initialisation with fan out, biases 0; the integrator passes the node on and ignores messages."""
    if head.score_weight.is_meta:  # only its shapes matter
        return
    for part in head.parts:
        for name, parameter in part.named_parameters():
            if name.endswith("_weight"):
                _he_normal(parameter, parameter.shape[2], generator)
            else:
                parameter.zero_()
    _he_normal(head.score_weight, 1, generator)
    head.integrator_weight.copy_(torch.eye(*head.integrator_weight.shape))
    head.score_bias.zero_()
    head.integrator_bias.zero_()


def _he_normal(weight: Tensor, fan_out: int, generator: torch.Generator) -> None:
    weight.copy_(torch.randn(weight.shape, generator=generator) * math.sqrt(2 / fan_out))
