from __future__ import annotations

import pytest
import torch
from slow_loops import assert_is_the_loop, negatives, positive_pairs, total
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create


def by_loop(rows: Tensor, labels: list[int], temperature: float, normalize: bool = True) -> Tensor:
    x = rows / rows.norm(dim=1, keepdim=True) if normalize else rows
    terms = []
    for a, p in positive_pairs(labels):
        terms.append(
            torch.log(1 + total(((x[a] @ x[n] - x[a] @ x[p]) / temperature).exp() for n in negatives(labels, a)))
        )
    return total(terms) / max(1, len(terms))


@pytest.mark.parametrize("temperature", [0.07, 1.0])
@pytest.mark.parametrize("normalize", [True, False])
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], temperature: float, normalize: bool) -> None:
    loss = create("nt_xent", temperature=temperature, normalize=normalize)
    assert_is_the_loop(loss, lambda rows, labels: by_loop(rows, labels, temperature, normalize), batch)


def test_other_positives_are_not_in_the_denominator() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    loss = create("nt_xent", temperature=1.0)(rows, torch.tensor([0, 0, 0, 1]))
    assert loss.item() == pytest.approx(torch.tensor(-1.0).exp().log1p().item())


def test_a_tiny_temperature_does_not_overflow() -> None:
    rows = torch.eye(4)[[0, 1, 0, 1]].requires_grad_()
    loss = create("nt_xent", temperature=1e-4)(rows, torch.tensor([0, 0, 1, 1]))
    assert loss.item() == pytest.approx(1e4)
    loss.backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


def test_temperature_must_be_above_zero() -> None:
    with pytest.raises(BadSpecification, match="above 0"):
        create("nt_xent", temperature=0.0)
