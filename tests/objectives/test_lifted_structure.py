from __future__ import annotations

import math

import pytest
import torch
from slow_loops import assert_is_the_loop, negatives, total
from torch import Tensor

from levelfield.objectives import create


def by_loop(rows: Tensor, labels: list[int], margin: float, normalize: bool) -> Tensor:
    """fehervari2019 eq. 2, over unordered pairs."""
    x = rows / rows.norm(dim=1, keepdim=True) if normalize else rows

    def sum_of(i: int) -> Tensor:
        return total((margin - (x[i] - x[n]).norm()).exp() for n in negatives(labels, i))

    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels)) if labels[i] == labels[j]]
    terms = [
        (torch.log(sum_of(i) + sum_of(j)) + (x[i] - x[j]).norm()).relu().square()
        for i, j in pairs
        if negatives(labels, i)
    ]
    return total(terms) / (2 * max(1, len(pairs)))


@pytest.mark.parametrize(("margin", "normalize"), [(1.0, False), (0.3, True), (-3.0, False)])
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], margin: float, normalize: bool) -> None:
    loss = create("lifted_structure", margin=margin, normalize=normalize)
    assert_is_the_loop(loss, lambda rows, labels: by_loop(rows, labels, margin, normalize), batch)


def test_zero_terms_stay_in_the_divisor_and_out_of_the_active_count() -> None:
    rows = torch.tensor([[0.0], [8.0], [100.0], [100.0]])
    loss = create("lifted_structure", margin=0.0)
    value = loss(rows, torch.tensor([0, 0, 1, 1]))
    sums = 2 * math.exp(-100) + 2 * math.exp(-92)
    assert value.item() == 0.0
    assert int(loss.active) == 0
    value = create("lifted_structure", margin=100.0)(rows, torch.tensor([0, 0, 1, 1]))
    near = math.log(sums) + 100
    assert value.item() == pytest.approx(((near + 8) ** 2 + near**2) / 4, rel=1e-5)


def test_weights_halve_a_pair_between_its_ends() -> None:
    rows, labels = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])
    loss = create("lifted_structure")
    whole = loss(rows, labels)
    assert loss(rows, labels, weights=torch.tensor([1.0, 0.0, 5.0])).item() == pytest.approx(whole.item() / 2)
