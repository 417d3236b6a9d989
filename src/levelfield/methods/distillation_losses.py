"""Distillation losses (seidenschwarz2021 C.4): three losses with a constant teacher.

All are means over the batch, so that they can be added to an objective's loss.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from levelfield.geometry import working


def soft_cross_entropy(student: Tensor, teacher: Tensor, *, temperature: float) -> Tensor:
    """mean_i -sum_c softmax(t_i / T)_c log softmax(s_i / T)_c; student, teacher: class logits (b, C).

    There is no factor T^2. Up to a constant (the teacher's entropy) it is the KL divergence of the two distributions,
    with equal gradients; the divergence in the released code is C times too small.

    >>> soft_cross_entropy(torch.zeros(1, 4), torch.tensor([[0.0, 0.0, 9.0, 9.0]]), temperature=3.0)
    tensor(1.3863)
    """
    share = (working(teacher.detach()) / temperature).softmax(1)
    losses = -(share * (working(student) / temperature).log_softmax(1)).sum(1)
    return losses.sum() / max(1, len(losses))


def feature_huber(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """Mean Huber loss over all coordinates; student, teacher: rows (b, d).

    >>> feature_huber(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 3.0]]))
    tensor(1.5000)
    """
    found = functional.huber_loss(working(student), working(teacher.detach()), reduction="sum", delta=delta)
    return found / max(1, student.numel())


def rkd_distance(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """Match the distances among the student's rows to those among the teacher's, up to scale (Park et al. 2019).

    Each matrix of Euclidean distances is divided by the mean of its non-zero entries; then the mean Huber loss of their
    difference over all entries, including the diagonal as in the authors' code. The two may differ in width.

    >>> near, far = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[0.0, 0.0], [0.0, 3.0], [0.0, 6.0]])
    >>> rkd_distance(near, far)
    tensor(0.)
    """
    ours, theirs = _relative_distance(working(student)), _relative_distance(working(teacher.detach()))
    return functional.huber_loss(ours, theirs, reduction="sum", delta=delta) / max(1, len(student) ** 2)


def relational_released(student: Tensor, teacher: Tensor, *, delta: float = 1.0) -> Tensor:
    """The relational loss of seidenschwarz2021's code: Huber loss of the difference of each coordinate instead of a
    distance; the diagonal counts in the mean, and absolute differences are SUMMED over all pairs, so that the weight
    must be small (0.01 there). Memory: O(batch^2 * dim).

    >>> relational_released(torch.eye(2), torch.eye(2)[:, :1])
    tensor(0.)
    """
    ours, theirs = (_relative_huber(working(rows), delta) for rows in (student, teacher.detach()))
    return (theirs - ours).abs().sum()


def _relative_distance(rows: Tensor) -> Tensor:
    """Distances from differences, not products: equal rows have distance exactly 0 and no gradient from each other."""
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    apart = (distance > 0).sum()
    return distance * (apart / distance.sum().masked_fill(apart == 0, 1))


def _relative_huber(rows: Tensor, delta: float) -> Tensor:
    left, right = torch.broadcast_tensors(rows[:, None], rows[None])
    potential = functional.huber_loss(left, right, reduction="none", delta=delta).sum(2)
    mean = potential.sum() / max(1, potential.numel())
    return potential / mean.masked_fill(mean == 0, 1)
