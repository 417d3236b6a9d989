"""Common comparison for all slow loops: value and gradient, of the call and of the definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from levelfield.objectives import Objective


def assert_is_the_loop(
    objective: Objective, loop: Callable[[Tensor, list[int]], Tensor], batch: tuple[Tensor, Tensor], **given: Any
) -> None:
    rows, labels = batch[0].clone().requires_grad_(), batch[1]
    wanted = loop(rows, labels.tolist()) + 0 * rows.sum()  # a loop over nothing has no gradient by itself
    (slope,) = torch.autograd.grad(wanted, rows)
    for found in (objective(rows, labels, **given), total(objective.terms(rows, labels, **given).values())):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(torch.autograd.grad(found, rows)[0], slope, rtol=1e-9, atol=1e-10)


def total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of scalars; 0 for none."""
    return torch.stack([torch.zeros((), dtype=torch.float64), *terms]).sum()


def others(labels: list[int], i: int) -> list[int]:
    return [j for j in range(len(labels)) if j != i and labels[j] == labels[i]]


def negatives(labels: list[int], i: int) -> list[int]:
    return [j for j in range(len(labels)) if labels[j] != labels[i]]


def positive_pairs(labels: list[int]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(labels)) for j in others(labels, i)]
