"""Class distributions, the hypergraph of a batch, and the network on it (lim2022 section 3; Feng et al. 2019)."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from levelfield.geometry import Geometry, unit

Bounds = tuple[float, float]


def distances(rows: Tensor, means: Tensor, log_vars: Tensor | None, *, log_var_clamp: Bounds) -> Tensor:
    """D_ic = sum_f (x_if - m_cf)^2 / v_cf (b, C): squared distances of unit rows x and unit means m, v = exp(clamped
    log_vars).

    rows: (b, d). means, log_vars: (C, d); without log_vars the means are proxies, v = 1.

    >>> rows, means = torch.tensor([[2.0, 0.0], [0.0, 5.0]]), torch.tensor([[1.0, 0.0]])
    >>> distances(rows, means, torch.tensor([[-3.0, 2.0]]), log_var_clamp=(0, 6))  # 1/1 + 1/e^2
    tensor([[0.0000],
            [1.1353]])
    """
    if log_vars is None:
        return Geometry(rows, means, normalize=True).squared_distance
    x, m = unit(rows), unit(means.to(rows.dtype))
    precision = functional.hardtanh(log_vars.to(x.dtype), *log_var_clamp).neg().exp()
    return x.square() @ precision.T - 2 * x @ (m * precision).T + (m.square() * precision).sum(1)


def propagation(incidence: Tensor) -> Tensor:
    """G = Dv^-1/2 H De^-1 H' Dv^-1/2 (b, b), the degrees Dv, De being the sums of H by row and by column.

    incidence: H (b, E), with a 1 in each row and column.

    >>> propagation(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    of_rows, of_edges = incidence.sum(1, keepdim=True), incidence.sum(0)
    scaled = incidence / of_rows.sqrt()
    return (scaled / of_edges) @ scaled.T


def attention(rows: Tensor, query_weight: Tensor, key_weight: Tensor) -> Tensor:
    """softmax_j(q_i . k_j / sqrt h) (b, b), the attention of a transformer instead of G. Weights: (h, d), without bias.

    >>> attention(torch.zeros(2, 3), torch.ones(4, 3), torch.ones(4, 3))
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    queries, keys = rows @ query_weight.T, rows @ key_weight.T
    return (queries @ keys.T / math.sqrt(len(query_weight))).softmax(1)


class Network(NamedTuple):
    """theta1 (h, d), (h,); batch norm (h,), (h,); theta2 (C, h), (C,)."""

    theta1_weight: Tensor
    theta1_bias: Tensor
    bn_weight: Tensor
    bn_bias: Tensor
    theta2_weight: Tensor
    theta2_bias: Tensor


def network_logits(
    rows: Tensor, graph: Tensor, network: Network, *, negative_slope: float = 0.1, bn_eps: float = 1e-5
) -> Tensor:
    """G (A theta2' + b2) with A = leaky_relu(batch_norm(G (z theta1' + b1))): class scores (b, C) of rows z (b, d).

    The batch norm always uses this batch's statistics: the network is not used at test time. The second layer computes
    G A first, which is equivalent and avoids the product of G with all classes.
    """
    theta1, b1, scale, shift, theta2, b2 = network
    hidden = graph @ functional.linear(rows, theta1, b1)
    if len(rows) < 2:  # torch refuses a single row, which has no variance: it becomes the bias
        hidden = (hidden - hidden) * scale + shift
    else:
        hidden = functional.batch_norm(hidden, None, None, scale, shift, training=True, eps=bn_eps)
    hidden = functional.leaky_relu(hidden, negative_slope)
    return (theta2 @ (graph @ hidden).T).T + graph.sum(1, keepdim=True) * b2  # faster class by class
