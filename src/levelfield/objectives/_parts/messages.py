"""Messages between the samples of a batch (seidenschwarz2021, section 3.2): equations and modules.

Every sample is a node of a fully connected graph with self-loops. Rows may be in groups (..., n, d): messages pass only
within a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.geometry import unit
from levelfield.labels import to_device

Drop = Callable[[Tensor], Tensor]


def split(rows: Tensor, heads: int) -> Tensor:
    """(..., n, d) -> (..., heads, n, d / heads): each head has a block of consecutive columns."""
    divided: Tensor = rows.unflatten(-1, (heads, -1)).transpose(-3, -2)
    return divided


def attention(queries: Tensor, keys: Tensor, *, heads: int, null_logit: bool) -> Tensor:
    """Eq. 3: a[m, i, j] = softmax_j(q_mi . k_mj / sqrt(d / heads)): weight of sender j for receiver i.

    queries, keys: (..., n, d); the result is (..., heads, n, n). The paper prints sqrt(d), where d is the size of one
    head. With `null_logit` the logits include a 0, so that the weights of a receiver may sum to less than 1.

    >>> rows = torch.tensor([[4.0, 0.0], [0.0, 4.0]])
    >>> attention(rows, rows, heads=2, null_logit=False)[0]
    tensor([[1.0000e+00, 1.1254e-07],
            [5.0000e-01, 5.0000e-01]])
    >>> attention(rows, rows, heads=2, null_logit=True)[0, 1]
    tensor([0.3333, 0.3333])
    """
    queries, keys = split(queries, heads), split(keys, heads)
    logits = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return functional.pad(logits, (0, 1)).softmax(-1)[..., :-1] if null_logit else logits.softmax(-1)


def received(weights: Tensor, values: Tensor) -> Tensor:
    """Eq. 4: the message to every node, concat_m sum_j a[m, i, j] v[j, m].

    weights: (..., heads, n, n), values: (..., n, d).

    >>> received(torch.full((1, 2, 2), 0.5), torch.tensor([[0.0, 2.0], [4.0, 4.0]]))
    tensor([[2., 3.],
            [2., 3.]])
    """
    return (weights @ split(values, weights.shape[-3])).transpose(-3, -2).flatten(-2)


def standardised(rows: Tensor, scale: Tensor, *, eps: float = 1e-5) -> Tensor:
    """Batch norm by the batch's own statistics (biased variance), with a scale and without a shift.

    >>> standardised(torch.tensor([[1.0], [3.0]]), torch.tensor([2.0]))
    tensor([[-2.0000],
            [ 2.0000]])
    """
    count = max(1, len(rows))  # avoids NaN without rows
    centred = rows - rows.sum(0) / count
    return centred * (scale * (centred.square().sum(0) / count + eps).rsqrt())


def dropout(probability: float, generator: torch.Generator) -> Drop:
    """Dropout that draws from `generator`, with the same mask in every precision.

    >>> dropout(0.5, torch.Generator().manual_seed(0))(torch.ones(4))
    tensor([0., 2., 0., 0.])
    """

    def drop(rows: Tensor) -> Tensor:
        drawn = torch.rand(rows.shape, generator=generator, device=generator.device)
        kept = to_device(drawn >= probability, rows.device)
        return rows * kept.to(rows.dtype).div_(1 - probability)

    return drop if probability else nothing_dropped


def nothing_dropped(rows: Tensor) -> Tensor:
    return rows


@dataclass(frozen=True)
class Choices:
    """Parts of a step. seidenschwarz2021: skip connections, feed-forward part; its code: an output projection."""

    heads: int
    null_logit: bool
    skip: bool
    output_projection: bool
    ff_factor: int  # width of the feed-forward part as a multiple of d; 0: none


class Step(nn.Module):
    """One step: message passing, then a feed-forward part per node.

    u = norm(h + o), h' = norm(u + W2 relu(W1 u)), with dropout on the added terms and inside.
    """

    def __init__(self, dim: int, choices: Choices, generator: torch.Generator) -> None:
        super().__init__()
        self.choices, hidden = choices, choices.ff_factor * dim
        self.query, self.key, self.value = (attending(dim, generator) for _ in range(3))
        self.out = attending(dim, generator) if choices.output_projection else nn.Identity()
        self.norm1 = nn.LayerNorm(dim)
        self.ff1 = linear(dim, hidden, generator) if hidden else None
        self.ff2 = linear(hidden, dim, generator) if hidden else None
        self.norm2 = nn.LayerNorm(dim) if hidden else None

    def forward(self, nodes: Tensor, drop: Drop, receivers: Tensor | None = None) -> Tensor:
        """The nodes after the step; only those at `receivers` if the others are not needed."""
        messages = drop(self.out(received(drop(self.attention(nodes, receivers)), self.value(nodes))))
        nodes = nodes if receivers is None else nodes.index_select(-2, receivers)
        nodes = self.norm1(nodes + messages if self.choices.skip else messages)
        if self.ff1 is None or self.ff2 is None or self.norm2 is None:
            return nodes
        thought = drop(self.ff2(drop(self.ff1(nodes).relu())))
        result: Tensor = self.norm2(nodes + thought if self.choices.skip else thought)
        return result

    def attention(self, nodes: Tensor, receivers: Tensor | None = None) -> Tensor:
        queries = self.query(nodes if receivers is None else nodes.index_select(-2, receivers))
        return attention(queries, self.key(nodes), heads=self.choices.heads, null_logit=self.choices.null_logit)


class Network(nn.Module):
    """`steps` of message passing on rows normalised to unit length."""

    def __init__(
        self, dim: int, choices: Choices, *, steps: int, input_projection: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.input = linear(dim, dim, generator) if input_projection else nn.Identity()
        self.steps = nn.ModuleList(Step(dim, choices, generator) for _ in range(steps))

    def forward(self, rows: Tensor, drop: Drop, receivers: Tensor | None = None) -> list[Tensor]:
        """The nodes before the first step, then those after each; after the last only those at `receivers`.

        rows: (..., n, d).
        """
        states = [self.input(unit(rows.flatten(0, -2)).view(rows.shape))]
        for number, step in enumerate(self.steps, 1):
            states.append(step(states[-1], drop, receivers if number == len(self.steps) else None))
        return states


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """Linear layer with torch's initialisation, drawn from `generator`: uniform within 1 / sqrt(inputs)."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=generator)
    return layer


def attending(dim: int, generator: torch.Generator) -> nn.Linear:
    """Linear layer of the attention: Xavier initialisation, bias 0 (authors' code)."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, dim)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
