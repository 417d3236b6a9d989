from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import Margin, create

BETAS = {2: 0.9, 3: 1.1, 5: 1.3, 7: 1.5, 9: 0.7}


def by_loop(rows: Tensor, labels: Tensor, *, margin: float, nu: float, whole: bool, by_triplet: bool) -> float:
    """Wu et al. 2017 eq. 5 over every triplet, one beta per class."""
    points, n = rows.tolist(), len(rows)
    total, betas, pairs, triplets = 0.0, 0.0, 0, 0
    for a in range(n):
        for p in range(n):
            for k in range(n):
                if a != p and labels[a] == labels[p] != labels[k]:
                    beta = BETAS.get(int(labels[a]), 1.2)
                    pull = max(0.0, math.dist(points[a], points[p]) - beta + margin)
                    push = max(0.0, beta - math.dist(points[a], points[k]) + margin)
                    total, betas = total + pull + push, betas + beta
                    pairs += (pull > 0) + (push > 0)
                    triplets += pull > 0 or push > 0
    divisor = max(1, triplets if by_triplet else pairs)
    return total / divisor + nu * (betas if whole else betas / divisor)


@pytest.mark.parametrize("by_triplet", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_margin_is_the_slow_loop(batch: tuple[Tensor, Tensor], by_triplet: bool, whole: bool, listed: bool) -> None:
    rows, labels = batch
    loss = create(
        "margin",
        num_classes=10,
        beta_per_class=True,
        margin=0.3,
        nu=0.02,
        nu_reduction="sum" if whole else "pairs",
        divisor="active_triplets" if by_triplet else "active_pairs",
        normalize=False,
        miner="all",
    ).double()
    with torch.no_grad():
        loss.beta.copy_(torch.tensor([BETAS.get(c, 1.2) for c in range(10)]))
    tuples = torch.tensor(
        [
            (a, p, k)
            for a in range(len(rows))
            for p in range(len(rows))
            for k in range(len(rows))
            if a != p and labels[a] == labels[p] != labels[k]
        ]
    ).reshape(-1, 3)
    slow = by_loop(rows, labels, margin=0.3, nu=0.02, whole=whole, by_triplet=by_triplet)
    assert loss(rows, labels, tuples=tuples if listed else None).item() == pytest.approx(slow, rel=1e-6)


def test_beta_is_learned_with_its_own_rate_and_gets_a_gradient() -> None:
    loss = Margin(beta=0.6, beta_lr_multiplier=7.0, miner="all")
    loss(torch.eye(4), torch.tensor([0, 0, 1, 1])).backward()
    assert loss.lr_multipliers() == {"beta": 7.0}
    assert loss.beta.grad is not None
    assert loss.beta.grad.item() == pytest.approx(-1.0)  # every active term is a pull


def test_a_fixed_beta_is_no_parameter_and_still_in_the_state() -> None:
    loss = Margin(learn_beta=False)
    assert list(loss.parameters()) == []
    assert loss.lr_multipliers() == {}
    assert "beta" in loss.state_dict()


def test_beta_per_class_without_classes_is_refused() -> None:
    with pytest.raises(BadSpecification, match="num_classes"):
        create("margin", beta_per_class=True)


def test_beta_per_class_refuses_a_label_without_beta() -> None:
    loss = create("margin", beta_per_class=True, num_classes=2)
    with pytest.raises(BadInput, match=r"2 classes but got the label 5: labels must be 0 to 1"):
        loss(torch.eye(2), torch.tensor([0, 5]))


def test_one_beta_takes_any_label() -> None:
    assert create("margin")(torch.eye(4), torch.tensor([-3, -3, 2**40, 2**40])).isfinite()
