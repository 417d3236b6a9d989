"""Losses of pairs beyond the golden cases: counts, forms, numerical range and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.geometry import Geometry
from levelfield.miners import create as create_miner
from levelfield.objectives import create
from levelfield.randomness import stream


def test_given_pairs_count_as_often_as_they_are_listed() -> None:
    rows = torch.tensor([[0.0], [1.0], [3.0]])
    loss = create("contrastive", neg_margin=5.0, normalize=False)
    tuples = (torch.tensor([[0, 1]]), torch.tensor([[0, 2], [0, 2], [1, 2]]))
    terms = loss.terms(rows, torch.tensor([0, 0, 1]), tuples=tuples)
    assert terms["positive"].item() == 1.0
    assert terms["negative"].item() == pytest.approx((2 + 2 + 3) / 3)


@pytest.mark.parametrize(
    ("name", "settings"), [("contrastive", {}), ("snr", {"form": "contrastive", "reg_over": "anchors"})]
)
def test_pairs_of_a_miner_fit(batch: tuple[Tensor, Tensor], name: str, settings: dict[str, Any]) -> None:
    assert create(name, miner="multi_similarity", **settings)(*batch).isfinite()


def test_the_miners_pairs_as_tuples_give_the_own_mining(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    tuples = create_miner("multi_similarity")(Geometry(rows, normalize=True), labels, generator=torch.Generator())
    found = []
    for given in (None, tuples):
        leaf = rows.clone().requires_grad_()
        value = create("multi_similarity")(leaf, labels, tuples=given)
        value.backward()
        found.append((value.detach(), leaf.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


def test_a_pair_listed_twice_counts_twice() -> None:
    none = torch.empty((0, 2), dtype=torch.int64)
    loss = create("multi_similarity", alpha=1, base=0, normalize=False)
    value = loss(torch.eye(2), torch.tensor([0, 0]), tuples=(torch.tensor([[0, 1], [0, 1]]), none))
    assert value.item() == pytest.approx(math.log(1 + 2) / 2)


@pytest.mark.parametrize("name", ["n_pair", "angular"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("labels", [[4, 7, 4, 4, 7, 1], [3, 3, 3]])
def test_the_form_pairs_takes_the_first_pair_of_each_class(name: str, symmetric: bool, labels: list[int]) -> None:
    pairs = [
        [labels.index(label), labels.index(label, labels.index(label) + 1)] for label in (4, 7, 3) if label in labels
    ]
    rows = torch.randn(len(labels), 5, generator=stream(3, "n_pair"), dtype=torch.float64)
    loss = create(name, form="pairs", symmetric=symmetric)
    expected = loss(rows, torch.tensor(labels), tuples=torch.tensor(pairs))
    torch.testing.assert_close(loss(rows, torch.tensor(labels)), expected)


def test_triplets_given_to_n_pair_are_anchor_and_positive() -> None:
    rows, labels = torch.randn(8, 5, generator=stream(3, "n_pair")), torch.tensor([5, 9, 5, 5, 9, 7, 5, 2])
    pairs = torch.tensor([[0, 2], [3, 0], [4, 1], [0, 2], [0, 6]])
    loss = create("n_pair")
    assert torch.equal(loss(rows, labels, tuples=torch.cat((pairs, pairs), 1)[:, :3]), loss(rows, labels, tuples=pairs))


def test_pairs_of_one_class_are_left_out_or_soft_targets() -> None:
    pairs, labels = torch.tensor([[0, 2], [3, 6], [4, 1]]), torch.tensor([5, 9, 5, 5, 9, 7, 5, 2])  # two of class 5
    x = torch.randn(8, 5, generator=stream(3, "n_pair"), dtype=torch.float64)
    logits = x[pairs[:, 0]] @ x[pairs[:, 1]].T
    target = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    same_class = logits.masked_fill((target == 0.5) & ~torch.eye(3, dtype=torch.bool), -torch.inf)
    for equal_class, expected in (
        ("soft_target", torch.nn.functional.cross_entropy(logits, target)),
        ("left_out", torch.nn.functional.cross_entropy(same_class, torch.arange(3))),
    ):
        loss = create("n_pair", form="pairs", nu=0.0, equal_class=equal_class)
        torch.testing.assert_close(loss(x, labels, tuples=pairs), expected)


def test_numbers_of_any_size_are_finite_and_right() -> None:
    rows = (1000 * torch.eye(4)[[0, 1, 0, 1]]).requires_grad_()
    value = create("n_pair", form="all", nu=0.0)(rows, torch.tensor([0, 0, 1, 1]))
    assert value.item() == pytest.approx(1e6)
    assert torch.autograd.grad(value, rows)[0].isfinite().all()


@pytest.mark.parametrize("name", ["n_pair", "angular"])
@pytest.mark.parametrize("form", ["sampled", "pairs"])
def test_tuples_that_are_no_pairs_are_refused_and_none_at_all_is_zero(name: str, form: str) -> None:
    loss, rows, labels = create(name, form=form, nu=0.0), torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(BadInput, match=r"\(N, 2\)"):
        loss(rows, labels, tuples=torch.tensor([0, 1]))
    assert loss(rows, labels, tuples=torch.tensor([])).item() == 0


def test_angular_of_raw_rows_of_any_length_is_finite() -> None:
    rows = (1e4 * torch.randn(8, 5, generator=stream(4, "angular"))).requires_grad_()
    value = create("angular", form="all", normalize=False)(rows, torch.tensor([5, 9, 5, 5, 9, 7, 5, 2]))
    assert value.isfinite()
    assert torch.autograd.grad(value, rows)[0].isfinite().all()


def test_other_positives_are_not_in_the_denominator() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    loss = create("nt_xent", temperature=1.0)(rows, torch.tensor([0, 0, 0, 1]))
    assert loss.item() == pytest.approx(torch.tensor(-1.0).exp().log1p().item())


def test_a_tiny_temperature_does_not_overflow() -> None:
    rows = torch.eye(4)[[0, 1, 0, 1]].requires_grad_()
    loss = create("nt_xent", temperature=1e-4)(rows, torch.tensor([0, 0, 1, 1]))
    assert loss.item() == pytest.approx(1e4)
    assert torch.autograd.grad(loss, rows)[0].isfinite().all()


def test_perfect_order_costs_nothing_and_the_reverse_one() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    loss = create("histogram")
    assert loss(rows, torch.tensor([0, 0, 1, 1])).item() == 0
    assert loss(rows[:2], torch.tensor([0, 1])).item() == 0  # no positive pair
    assert loss(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0, 1])).item() == 1


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
