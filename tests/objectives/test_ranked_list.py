from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "fehervari2019 code": {"weight_grad": True, "reduction": "mean_nonzero"},
    "convex": {"combine": "convex", "lam": 0.3, "temperature": 3.0, "temperature_pos": 2.0, "weight_grad": True},
    "constant weights of positives": {"temperature_pos": 2.0},
    "raw, plain means": {"normalize": False, "temperature": 0.0, "alpha": 3.0, "margin": 2.0},
}


def by_loop(rows: Tensor, labels: Tensor, settings: dict[str, Any]) -> Tensor:
    """fehervari2019 eq. 6-9, anchor by anchor."""
    get = {"alpha": 1.2, "margin": 0.4, "temperature": 10.0, "temperature_pos": 0.0, "lam": 1.0, **settings}
    if get.get("normalize", True):
        rows = rows / rows.norm(dim=1, keepdim=True)
    losses = []
    for i in range(len(rows)):
        sides: dict[bool, list[tuple[Tensor, Tensor]]] = {True: [], False: []}
        for j in range(len(rows)):
            if i != j:
                same = bool(labels[i] == labels[j])
                d = (rows[i] - rows[j]).norm()
                excess = d - (get["alpha"] - get["margin"]) if same else get["alpha"] - d
                if excess > 0:
                    weight = (get["temperature_pos" if same else "temperature"] * excess).exp()
                    sides[same].append((excess, weight if get.get("weight_grad") else weight.detach()))
        pull, push = (
            sum((e * w for e, w in side), 0.0 * rows.sum()) / sum((w for _, w in side), 1e-300 + 0.0 * rows.sum())
            for side in (sides[True], sides[False])
        )
        losses.append((1 - get["lam"] if get.get("combine") == "convex" else 1) * pull + get["lam"] * push)
    above = sum(1 for loss in losses if loss > 0)
    return sum(losses, 0.0 * rows.sum()) / (max(1, above) if get.get("reduction") == "mean_nonzero" else len(losses))


@pytest.mark.parametrize("variant", VARIANTS)
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], variant: str) -> None:
    rows, labels = batch
    rows.requires_grad_()
    found = create("ranked_list", **VARIANTS[variant])(rows, labels)
    wanted = by_loop(rows, labels, VARIANTS[variant])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(value, rows)[0] for value in (found, wanted)), rtol=0, atol=1e-11)


def test_far_apart_in_order_costs_nothing() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    loss = create("ranked_list")
    value = loss(rows, torch.tensor([0, 0, 1, 1]))
    assert value.item() == 0
    assert int(loss.active) == 0


def test_a_large_temperature_takes_the_nearest_negative_alone() -> None:
    rows, labels = torch.tensor([[0.0], [0.5], [0.25]], dtype=torch.float64), torch.tensor([0, 1, 2])
    loss = create("ranked_list", temperature=1e4, normalize=False, alpha=1.0)
    assert loss(rows, labels).item() == pytest.approx(0.75)


def test_weights_belong_to_the_anchor(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    loss = create("ranked_list")
    each = [loss(rows, labels, weights=torch.eye(len(rows), dtype=rows.dtype)[i]).item() for i in range(len(rows))]
    assert math.fsum(each) == pytest.approx(loss(rows, labels).item())


def test_a_convex_sum_needs_a_share() -> None:
    with pytest.raises(BadSpecification, match="between 0 and 1"):
        create("ranked_list", combine="convex", lam=2.0)
