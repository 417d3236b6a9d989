"""Closed forms beyond the laws: their common node, and scores in chunks of classes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield import objectives
from levelfield.errors import BadInput
from levelfield.objectives import proxy_anchor
from levelfield.objectives._parts import class_scores
from levelfield.testing import CLASSES, DIM, ordinary

WITH_PARAMETERS = ["proxy_anchor", "soft_triple"]
RAW = [
    ("contrastive", {"miner": "all", "normalize": False}),
    ("triplet", {"miner": "all", "normalize": False}),
    ("margin", {"normalize": False}),
    ("lifted_structure", {}),
]


@pytest.fixture(autouse=True)
def _few_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_anchor, "MANY", 0)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def create(name: str, **settings: Any) -> objectives.Objective:
    return objectives.create(name, num_classes=CLASSES, dim=DIM, **settings)


@pytest.mark.parametrize("frozen", ["rows", "parameters"])
@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_one_side_may_be_frozen(name: str, frozen: str) -> None:
    rows, labels = ordinary()
    rows.requires_grad_(frozen != "rows")
    objective = create(name)
    if frozen == "parameters":
        objective.requires_grad_(False)
    asked = list(objective.parameters()) if frozen == "rows" else [rows]
    slopes = torch.autograd.grad(objective(rows, labels, generator=generator()), asked)
    assert all(slope.isfinite().all() for slope in slopes)


def test_second_derivatives_are_refused_with_the_way_to_get_them() -> None:
    rows, labels = ordinary()
    rows.requires_grad_()
    objective = create("triplet", miner="all")
    with pytest.raises(BadInput, match=r"no second derivatives .* sum of `objective\.terms"):
        torch.autograd.grad(objective(rows, labels), rows, create_graph=True)
    (first,) = torch.autograd.grad(sum(objective.terms(rows, labels).values()), rows, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), rows)[0].isfinite().all()


@pytest.mark.parametrize(("name", "settings"), RAW, ids=lambda value: value if isinstance(value, str) else "")
def test_raw_rows_far_from_the_origin_keep_their_digits(name: str, settings: dict[str, Any]) -> None:
    rows, labels = ordinary()

    def gradient(shifted: Tensor) -> Tensor:
        leaf = shifted.clone().requires_grad_()
        loss = create(name, **settings).to(leaf.dtype)(leaf, labels, generator=generator())
        return torch.autograd.grad(loss, leaf)[0].double()

    far = rows + 1e4
    exact = gradient(far.double())
    assert (gradient(far) - exact).abs().max() < 1e-5 * exact.abs().max()


def test_autocast_does_not_reach_the_backward_pass() -> None:
    rows, labels = ordinary()
    rows.requires_grad_()
    objective = create("multi_similarity")
    (plain,) = torch.autograd.grad(objective(rows, labels), rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (cast,) = torch.autograd.grad(objective(rows, labels), rows)
    torch.testing.assert_close(cast, plain)


def test_a_miner_of_pairs_alone_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"'contrastive' takes triplets .* shape \(11, 2\)"):
        create("contrastive", miner="n_pair")(*ordinary())


@pytest.mark.parametrize("at_once", [1, 4, 10])
@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_chunks_of_any_size_give_the_same_loss_and_gradients(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss_and_gradients() -> list[Tensor]:
        objective = objectives.create(name, num_classes=11, dim=6, generator=generator()).double()
        rows = torch.randn(9, 6, generator=generator(), dtype=torch.float64, requires_grad=True)
        labels = torch.tensor([10, 0, 3, 3, 10, 7, 0, 5, 4])  # in no order, and some chunks meet none of them
        loss = objective(rows, labels)
        return [loss, *torch.autograd.grad(loss, [rows, *objective.parameters()])]

    whole = loss_and_gradients()
    monkeypatch.setattr(class_scores, "AT_ONCE", at_once)
    for one, other in zip(loss_and_gradients(), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
