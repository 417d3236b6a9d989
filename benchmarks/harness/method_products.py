"""Exactly the matrix products that the equations of a method need, forward and backward, and nothing else.

b rows of d numbers, C classes. A product X Y' needs two more in the backward pass, the gradients of X and Y, or one if
only Y trains. Element-wise operations (sums, exponentials, norms, softmaxes, losses) are not included: they are the
overhead of a method. If an equation can be evaluated in two orders, the cheaper one counts. With many classes the
result is stored class by class, Y X', which is faster (by a tenth with 11,318).

hist (lim2022; h = 512 hidden numbers, E classes in the batch)
    D = x^2 (1/v)' - 2 x (m/v)' + sum m^2/v    two products (b, d) x (d, C)
    G = (H / De) H'                            (b, E) x (E, b)
    G (z theta1')                              (b, d) x (d, h), then (b, b) x (b, h)
    G (A theta2')                              (b, h) x (h, C), and (b, b) with the narrower of the two sides
message_passing (seidenschwarz2021; 2 heads, 1 step)
    queries, keys, values, output              four (b, d) x (d, d)
    attention, what is received                for each head (b, d/2) x (d/2, b), (b, b) x (b, d/2)
    W2 relu(W1 u)                              (b, d) x (d, 4 d), (b, 4 d) x (4 d, d)
    both classifiers                           two (b, d) x (d, C)
drml (zheng2021; K = 4 branches of e = d/K numbers, F = 1024 features, which have gradients as a trunk wants them)
    nodes                                      K times (b, F/K) x (F/K, e)
    decoders, of rows without gradient         K times (b, e) x (e, F/K), one product back
    score(A_a x_a - B_b x_b), linear in x      2 K times (F/K, e) x (e, 1), then K times (b, F/K) x (F/K, 2), of which
                                               the features have no gradient
    integrator [n_b, sum_a S_ab n_a]           (K b, e) x (e, 2 e), then for each sample (K, K) x (K, e)
    wrapped cosface                            (b, d) x (d, C); over the branches together (b, e) x (e, C)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from harness.interleaved import Sample, between, clocks


class Product(NamedTuple):
    """X Y' of X (rows, inner) and Y (columns, inner); `times` in one call if more than one.

    >>> sum(product.flops for product in normalized_softmax(2, 3, 5)) == 3 * 2 * (2 * 3 * 5)
    True
    """

    rows: int
    inner: int
    columns: int
    times: int = 1
    back: int = 2  # gradients: of X and Y, or of Y alone

    @property
    def flops(self) -> int:
        return (1 + self.back) * 2 * self.times * self.rows * self.inner * self.columns


def normalized_softmax(batch: int, dim: int, classes: int) -> list[Product]:
    return [Product(batch, dim, classes)]


def hist(batch: int, dim: int, classes: int, *, present: int, hidden: int = 512) -> list[Product]:
    return [
        *[Product(batch, dim, classes)] * 2,
        Product(batch, present, batch),
        Product(batch, dim, hidden),
        Product(batch, batch, hidden),
        Product(batch, hidden, classes),
        Product(batch, batch, min(hidden, classes)),
    ]


def message_passing(batch: int, dim: int, classes: int, *, heads: int = 2, wider: int = 4) -> list[Product]:
    return [
        *[Product(batch, dim, dim)] * 4,
        Product(batch, dim // heads, batch, times=heads),
        Product(batch, batch, dim // heads, times=heads),
        Product(batch, dim, wider * dim),
        Product(batch, wider * dim, dim),
        *[Product(batch, dim, classes)] * 2,
    ]


def drml(batch: int, dim: int, classes: int, *, features: int, branches: int = 4) -> list[Product]:
    block, size = features // branches, dim // branches
    return [
        Product(batch, block, size, times=branches),
        Product(batch, size, block, times=branches, back=1),
        Product(block, size, 1, times=2 * branches),
        Product(batch, block, 2, times=branches, back=1),
        Product(branches * batch, size, 2 * size),
        Product(branches, branches, size, times=batch),
        Product(batch, dim, classes),
        *[Product(batch // branches, size, classes)] * branches,
    ]


def lane(products: list[Product]) -> Callable[[], Sample]:
    """Time all products forward, then all gradients; all gradients are in memory at the end."""
    draw = torch.Generator().manual_seed(1)

    def drawn(product: Product, height: int, width: int) -> Tensor:
        shape = (height, width) if product.times == 1 else (product.times, height, width)
        return torch.randn(shape, generator=draw)

    operands = [(drawn(one, one.rows, one.inner), drawn(one, one.columns, one.inner)) for one in products]
    slopes = [drawn(one, one.columns, one.rows) for one in products]

    def once() -> Sample:
        before = clocks()
        values = [y @ x.mT for x, y in operands]
        gradients = []
        for product, (x, y), slope in zip(products, operands, slopes, strict=True):
            gradients.append(slope @ x)
            if product.back == 2:
                gradients.append(slope.mT @ y)
        taken = between(before, clocks())
        del values, gradients
        return taken

    return once
