"""Losses whose images have roles: prototypes of a support, and anchors of the group loss."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives.group_loss import GroupLoss, draw_anchors, group_loss_terms, positive_correlation
from levelfield.objectives.prototypical import Prototypical, halves
from levelfield.randomness import stream


def by_loop(rows: Tensor, labels: Tensor, support: list[int], query: list[int], squared: bool = True) -> float:
    """fehervari2019 eq. 13, query by query."""
    x, y = rows.tolist(), labels.tolist()
    prototypes = {}
    for name in {y[i] for i in support}:
        members = [x[i] for i in support if y[i] == name]
        prototypes[name] = [sum(column) / len(members) for column in zip(*members, strict=True)]
    losses = []
    for q in query:
        if y[q] in prototypes:
            logits = {c: -(math.dist(x[q], mu) ** (2 if squared else 1)) for c, mu in prototypes.items()}
            losses.append(math.log(sum(math.exp(z) for z in logits.values())) - logits[y[q]])
    return sum(losses) / max(1, len(losses))


@pytest.mark.parametrize("squared", [True, False])
def test_first_half_of_each_class_is_the_slow_loop(batch: tuple[Tensor, Tensor], squared: bool) -> None:
    rows, labels = batch
    seen: dict[int, int] = {}
    support, query = [], []
    for i, label in enumerate(labels.tolist()):
        seen[label] = seen.get(label, 0) + 1
        (support if seen[label] <= (int((labels == label).sum()) + 1) // 2 else query).append(i)
    assert [part.tolist() for part in halves(labels)] == [support, query]
    value = Prototypical(squared=squared)(rows, labels)
    assert value.item() == pytest.approx(by_loop(rows, labels, support, query, squared), abs=1e-9)


def test_given_roles_are_the_slow_loop_and_move_with_the_rows() -> None:
    drawn = stream(0, "prototypical")
    rows = torch.randn(10, 3, generator=drawn, dtype=torch.float64)
    labels = torch.tensor([4, 4, 4, 8, 8, 8, 8, 2, 2, 6])
    support, query = [2, 4, 5, 6, 9], [0, 1, 3, 7, 8]  # class 2 has no support, class 6 no query
    loss = Prototypical()
    value = loss(rows, labels, roles={"support": support, "query": torch.tensor(query)})
    assert value.item() == pytest.approx(by_loop(rows, labels, support, query), abs=1e-12)
    order = torch.randperm(10, generator=drawn)
    place = order.argsort()
    moved = loss(rows[order], labels[order], roles={"support": place[support], "query": place[query]})
    torch.testing.assert_close(moved, value)


def test_episodes_of_one_batch_do_not_see_each_other() -> None:
    rows = torch.randn(12, 3, generator=stream(1, "episodes"), dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1, 0, 1, 0, 0, 2, 2, 0, 2])  # class 0 is in both
    first, second = range(6), range(6, 12)
    support, query = [0, 1, 2, 3, 6, 7, 8, 9], [4, 5, 10, 11]
    value = Prototypical()(rows, labels, roles={"support": support, "query": query, "episode": [0] * 6 + [9] * 6})
    apart = [
        by_loop(rows, labels, [i for i in support if i in part], [i for i in query if i in part])
        for part in (first, second)
    ]
    assert value.item() == pytest.approx(sum(apart) / 2, abs=1e-12)


def test_a_weight_belongs_to_the_query() -> None:
    rows, labels = torch.tensor([[0.0], [1.0], [0.0], [1.0]]), torch.tensor([0, 1, 0, 1])
    one = math.log1p(math.exp(-1))
    weights = torch.tensor([9.0, 9.0, 3.0, 0.0])
    assert Prototypical()(rows, labels, weights=weights).item() == pytest.approx((3 * one + 0) / 2)


def test_far_from_the_origin_digits_survive() -> None:
    rows = torch.randn(12, 3, generator=stream(2, "far")) + 10_000
    labels = torch.arange(12) % 2
    torch.testing.assert_close(Prototypical()(rows, labels), Prototypical()(rows.double(), labels).float())


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"support": [0, 1], "query": [1, 2]}, "row 1 is both support and query"),
        ({"support": [0, 1]}, r"\['support'\]"),
        ([0, 1, 0, 1], "list"),
        ({"support": [0], "query": [1], "episode": [0]}, "1 episodes for 4 embeddings"),
    ],
)
def test_roles_that_make_no_sense_are_refused(roles: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Prototypical()(torch.eye(4), torch.tensor([0, 0, 1, 1]), roles=roles)


def test_nothing_to_ask_is_zero_with_a_graph() -> None:
    rows = torch.eye(4, requires_grad=True)
    for roles in ({"support": [], "query": [0, 1]}, {"support": [0], "query": []}, {"support": [0], "query": [2]}):
        value = Prototypical()(rows, torch.tensor([0, 0, 1, 1]), roles=roles)
        value.backward()
        assert value.item() == 0


def sample(n: int = 9, dim: int = 5, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    drawn = stream(0, "group_loss")
    rows = torch.randn(n, dim, generator=drawn, dtype=torch.float64)
    return rows, torch.arange(n) % classes, torch.randn(classes, dim, generator=drawn, dtype=torch.float64)


def test_without_iterations_it_is_cross_entropy_of_the_soft_prior() -> None:
    rows, labels, weight = sample()
    logits = rows @ weight.T
    found = group_loss_terms(rows, logits, labels, torch.tensor([2]), temperature=7.0, iterations=0)
    expected = functional.cross_entropy(logits / 7, labels, reduction="none")
    expected[2] = 0
    torch.testing.assert_close(found.group, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", [0.1, 1e6 + 1 / 3])
def test_a_constant_row_resembles_nobody_and_gets_no_gradient(dtype: torch.dtype, level: float) -> None:
    rows, _, _ = sample()
    rows = rows.to(dtype)
    rows[2] = level
    rows.requires_grad_()
    similarity = positive_correlation(rows)
    assert not similarity[2].any()
    assert not similarity[:, 2].any()
    (slope,) = torch.autograd.grad(similarity.sum(), rows)
    assert slope.isfinite().all()
    assert not slope[2].any()


@pytest.mark.parametrize("wanted", [0, 1, 2, 5])
def test_anchors_are_drawn_per_class_and_never_all_of_it(wanted: int) -> None:
    labels = torch.tensor([7, 2, 7, 7, 2, 9, 7, 2, 7])
    for seed in range(20):
        anchors = draw_anchors(labels, wanted, torch.Generator().manual_seed(seed))
        assert len(anchors.unique()) == len(anchors)
        for name, size in ((7, 5), (2, 3), (9, 1)):
            assert int((labels[anchors] == name).sum()) == min(wanted, size - 1)


def test_every_member_is_drawn_as_an_anchor_equally_often() -> None:
    generator = torch.Generator().manual_seed(0)
    times = torch.stack([draw_anchors(torch.zeros(4).long(), 1, generator) for _ in range(800)]).flatten().bincount()
    assert (times - 200).abs().max() < 50  # four standard deviations


def test_wrong_roles_and_settings_are_refused() -> None:
    loss = GroupLoss(num_classes=2, dim=4)
    with pytest.raises(BadInput, match="anchors"):
        loss(torch.eye(4), torch.tensor([0, 0, 1, 1]), roles={"support": [0]})
    with pytest.raises(BadSpecification, match="integer"):
        GroupLoss(num_classes=2, dim=4, iterations=0.5)  # type: ignore[arg-type]
