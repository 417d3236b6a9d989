"""Scores in chunks of classes: chunk boundaries change nothing."""

from __future__ import annotations

import pytest
import torch

from levelfield import objectives
from levelfield.objectives import proxy_anchor
from levelfield.objectives._parts import class_scores

CLASSES, DIM = 11, 6


def loss_and_gradients(name: str) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    objective = objectives.create(name, num_classes=CLASSES, dim=DIM, generator=torch.Generator().manual_seed(2))
    objective.double()
    rows = torch.randn(9, DIM, generator=draw, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([10, 0, 3, 3, 10, 7, 0, 5, 4])  # in no order, and some chunks meet none of them
    loss = objective(rows, labels)
    return [loss, *torch.autograd.grad(loss, [rows, *objective.parameters()])]


@pytest.mark.parametrize("at_once", [1, 4, 10])
@pytest.mark.parametrize("name", ["proxy_anchor", "soft_triple"])
def test_chunks_of_any_size_give_the_same_loss_and_gradients(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_anchor, "MANY", 0)
    whole = loss_and_gradients(name)
    monkeypatch.setattr(class_scores, "AT_ONCE", at_once)
    for one, other in zip(loss_and_gradients(name), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("classes", "expected"), [(proxy_anchor.MANY - 1, False), (proxy_anchor.MANY, True)])
def test_proxy_anchor_uses_its_closed_form_with_many_classes(classes: int, expected: bool) -> None:
    objective = objectives.create("proxy_anchor", num_classes=classes, dim=DIM)
    loss = objective(torch.ones(2, DIM, requires_grad=True), torch.tensor([0, 1]))
    assert ("Attached" in type(loss.grad_fn).__name__) == expected
