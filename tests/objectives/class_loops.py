"""Slow loops over samples and classes, and their derivatives, to check the objectives with proxies."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from levelfield.objectives import Objective
from levelfield.randomness import stream

Rows = list[list[float]]
Loop = Callable[[Rows, list[int], Rows], float]


def cosine(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True)) / (math.hypot(*x) * math.hypot(*y))


def entropy(logits: list[float], label: int) -> float:
    return math.log(sum(math.exp(x) for x in logits)) - logits[label]


def sample(classes: int = 4, per_class: int = 1, dim: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, labels (one class absent) and class vectors."""
    labels = torch.tensor([0, 2, 2, 0, 1])
    drawn = torch.randn(len(labels) + classes * per_class, dim, generator=stream(3, "loops"), dtype=torch.float64)
    return drawn[: len(labels)], labels, drawn[len(labels) :]


def agrees(objective: Objective, parameter: str, loop: Loop, per_class: int = 1, step: float = 1e-5) -> None:
    """Value by the call and by its terms; gradients of embeddings and class vectors by central differences."""
    rows, labels, vectors = sample(per_class=per_class)
    objective.double()
    with torch.no_grad():
        objective.get_parameter(parameter).copy_(vectors)
    rows.requires_grad_()
    expected = loop(rows.tolist(), labels.tolist(), vectors.tolist())
    terms = sum(objective.terms(rows, labels).values())
    assert isinstance(terms, Tensor)
    value = objective(rows, labels)
    torch.testing.assert_close(value.item(), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(terms.item(), expected, rtol=1e-10, atol=1e-10)
    value.backward()
    given = [rows.tolist(), vectors.tolist()]
    for which, found in enumerate((rows.grad, objective.get_parameter(parameter).grad)):
        assert found is not None
        for i, row in enumerate(given[which]):
            for j, x in enumerate(row):
                sides = []
                for moved in (x + step, x - step):
                    row[j] = moved
                    sides.append(loop(given[0], labels.tolist(), given[1]))
                row[j] = x
                slope = (sides[0] - sides[1]) / (2 * step)
                torch.testing.assert_close(found[i, j].item(), slope, rtol=1e-6, atol=1e-7)
