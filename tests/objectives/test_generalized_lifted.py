from __future__ import annotations

from typing import Any

import pytest
import torch
from slow_loops import assert_is_the_loop, negatives, others, total
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create

VARIANTS: list[dict[str, Any]] = [
    {"margin": 1.0, "nu": 0.005, "nu_power": 2, "normalize": False},
    {"margin": 0.2, "nu": 0.3, "nu_power": 1, "normalize": False},
    {"margin": 0.5, "nu": 0.1, "nu_power": 2, "normalize": True},
    {"margin": -4.0, "nu": 0.0, "nu_power": 2, "normalize": False},
]


def by_loop(rows: Tensor, labels: list[int], margin: float, nu: float, nu_power: int, normalize: bool) -> Tensor:
    """roth2020 eq. 3 as its code has it: the mean over anchors, without p = a."""
    x = rows / rows.norm(dim=1, keepdim=True) if normalize else rows
    terms = []
    for a in range(len(labels)):
        near, far = others(labels, a), negatives(labels, a)
        if near and far:
            pull = total((x[a] - x[p]).norm().exp() for p in near).log()
            push = total((margin - (x[a] - x[n]).norm()).exp() for n in far).log()
            terms.append((pull + push).relu())
    return total(terms) / max(1, len(terms)) + nu * total(row.norm() ** nu_power for row in x) / len(x)


@pytest.mark.parametrize("settings", VARIANTS)
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], settings: dict[str, Any]) -> None:
    loss = create("generalized_lifted", **settings)
    assert_is_the_loop(loss, lambda rows, labels: by_loop(rows, labels, **settings), batch)


def test_an_anchor_without_a_positive_is_not_counted() -> None:
    rows, labels = torch.tensor([[0.0], [2.0], [1.0]]), torch.tensor([0, 0, 1])
    loss = create("generalized_lifted", nu=0.0)
    assert loss(rows, labels).item() == pytest.approx(2.0)  # 2 + 1 - 1 for both, the third is left out
    assert int(loss.active) == 2


def test_the_norm_term_is_there_without_any_pair() -> None:
    loss = create("generalized_lifted", nu=0.5, nu_power=1)
    assert loss(torch.tensor([[3.0, 4.0]]), torch.tensor([0])).item() == pytest.approx(2.5)


def test_the_exponent_is_one_or_two() -> None:
    with pytest.raises(BadSpecification, match="1, 2"):
        create("generalized_lifted", nu_power=3)
