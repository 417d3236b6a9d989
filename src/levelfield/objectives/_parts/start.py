"""Own parameters of an objective from the first embeddings of the training images (`proxies: class_means`).

Proxies start at class means. This module has the counterparts for other parameters: the weights of a linear classifier,
and the variances of class distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

POOLED = 16  # images that the variances of all classes count for, beside those of one class
SAMPLED = 1024  # images that choose the scale of a classifier
SPREADS = (2.0**-4, 2.0**6)  # allowed standard deviations of the first logits of an image
HALVINGS = 24


@dataclass(frozen=True)
class StartRows:
    """Embeddings (n, d) of the training images before the first step, and their classes (n,), from 0 to C - 1."""

    rows: Tensor
    labels: Tensor

    @property
    def unit(self) -> StartRows:
        """The same with rows of length 1."""
        return StartRows(functional.normalize(self.rows, dim=1), self.labels)

    @property
    def counts(self) -> Tensor:
        """Images per class (C,)."""
        return torch.bincount(self.labels)

    def means(self) -> Tensor:
        """Class means (C, d); NaN for a class without images.

        >>> StartRows(torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 5.0]]), torch.tensor([0, 0, 1])).means()
        tensor([[2., 0.],
                [5., 5.]])
        """
        sums = torch.zeros(len(self.counts), self.rows.shape[1]).index_add_(0, self.labels, self.rows)
        return sums / self.counts.unsqueeze(1)

    def variances(self) -> Tensor:
        """Class variances (C, d), averaged with those of all classes, which count for 16 images: a class has few.

        v_cf = (sum_i in c (x_if - m_cf)^2 + 16 v_f) / (n_c - 1 + 16), v_f = sum_i (x_if - m_f of its class)^2 / (n - C)
        """
        squares = (self.rows - self.means().index_select(0, self.labels)).square()
        within = torch.zeros(len(self.counts), self.rows.shape[1]).index_add_(0, self.labels, squares)
        pooled = within.sum(0) / max(1, len(self.rows) - len(self.counts))
        return (within + POOLED * pooled) / (self.counts.unsqueeze(1) - 1 + POOLED)

    def blocks(self, count: int) -> list[StartRows]:
        """The rows divided into `count` blocks of columns."""
        return [StartRows(block, self.labels) for block in self.rows.chunk(count, 1)]


def log_variances(start: StartRows) -> Tensor:
    """Log variances (C, d) of the classes' unit rows, less their mean: like a random start they are 0 on average, so
    that a scale such as hist's `tau` keeps its meaning.

    >>> rows = StartRows(torch.eye(4).roll(1, 1), torch.tensor([0, 0, 1, 1]))
    >>> log_variances(rows).mean().abs() < 1e-6
    tensor(True)
    """
    smallest = torch.finfo(start.rows.dtype).tiny
    logs = start.unit.variances().clamp_min(smallest).log()
    return logs - logs.mean()


def linear_classifier(start: StartRows, *, temperature: float = 1.0, bias: bool = True) -> tuple[Tensor, Tensor]:
    """Weights (C, d) and biases (C,) of the classifier that chooses the nearest class mean of the raw rows.

    The first logits are s (m_c . x - |m_c|^2 / 2), that is, -s |x - m_c|^2 / 2 without a term that all classes share.
    Without biases, the means get their average length, so that the classifier chooses the smallest angle. The logits
    are those after the division by `temperature`. The scale s minimises the cross-entropy of the training images (at
    most 1024), each left out of its own class mean.
    """
    means = start.means()
    length = torch.linalg.vector_norm(means, dim=1).mean()
    points = means if bias else functional.normalize(means, dim=1) * length
    scale = _scale(_left_out_scores(start, means, points, bias=bias)) * temperature
    return points * scale, -_half_squares(points, bias=bias) * scale


def _left_out_scores(start: StartRows, means: Tensor, points: Tensor, *, bias: bool) -> tuple[Tensor, Tensor]:
    """Scores (k, C) of at most SAMPLED images of classes with two or more, and their classes (k,)."""
    counts = start.counts.index_select(0, start.labels)
    usable = (counts > 1).nonzero()[:, 0]
    chosen = usable[:: max(1, math.ceil(len(usable) / SAMPLED))]
    rows, labels = start.rows[chosen], start.labels[chosen]
    n = counts[chosen, None].to(rows)
    others = (means.index_select(0, labels) * n - rows) / (n - 1)
    if not bias:
        others = functional.normalize(others, dim=1) * torch.linalg.vector_norm(points, dim=1).mean()
    scores = rows @ points.T - _half_squares(points, bias=bias)
    target = (rows * others).sum(1) - _half_squares(others, bias=bias)
    return scores.scatter(1, labels[:, None], target[:, None]), labels


def _half_squares(points: Tensor, *, bias: bool) -> Tensor:
    return points.square().sum(1) / 2 * bias


def _scale(scored: tuple[Tensor, Tensor]) -> float:
    """The scale of the scores with the smallest mean cross-entropy, by bisection of its derivative, which rises."""
    scores, labels = scored
    spread = float(scores.std(1).mean()) if scores.shape[1] > 1 and len(scores) else 0.0
    if not spread > 0:
        return 1.0
    target = scores.gather(1, labels[:, None])[:, 0].mean()
    low, high = (math.log(bound / spread) for bound in SPREADS)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        expected = ((scores * math.exp(middle)).softmax(1) * scores).sum(1).mean()
        low, high = (low, middle) if expected > target else (middle, high)
    return math.exp((low + high) / 2)
