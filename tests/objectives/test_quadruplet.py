from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.objectives import create
from levelfield.objectives.quadruplet import draw_fourth
from levelfield.randomness import stream

FOUR = torch.tensor([[0, 1, 2, 4], [1, 0, 3, -1], [2, 3, 0, 5], [2, 2, 3, 0], [0, 1, 2, 4]])  # repeats count twice


def by_loop(rows: Tensor, first: Tensor, second: Tensor, squared: bool, margin1: float, margin2: float) -> Tensor:
    """roth2020 eq. 14: `first` lists the (a, p, n) of the first term, `second` the (a, p, n, l) of the second."""
    unit = rows / rows.norm(dim=1, keepdim=True)

    def distance(i: int, j: int) -> Tensor:
        return (unit[i] - unit[j]).square().sum() if squared else (unit[i] - unit[j]).norm()

    one = [(distance(a, p) - distance(a, n) + margin1).relu() for a, p, n in first.tolist()]
    two = [(distance(a, p) - distance(k, n) + margin2).relu() for a, p, n, k in second.tolist()]
    return sum(one, 0.0 * rows.sum()) / max(1, len(one)) + sum(two, 0.0 * rows.sum()) / max(1, len(two))


def same(found: Tensor, wanted: Tensor, rows: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        *(torch.autograd.grad(value, rows, retain_graph=True)[0] for value in (found, wanted)), rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("squared", [False, True])
def test_given_quadruplets_are_the_slow_loop(squared: bool) -> None:
    rows = torch.randn(6, 4, generator=stream(0, "rows"), dtype=torch.float64, requires_grad=True)
    settings: dict[str, Any] = {"squared": squared, "margin1": 0.5, "margin2": 0.3}
    found = create("quadruplet", **settings)(rows, torch.tensor([0, 0, 1, 1, 2, 2]), tuples=FOUR)
    same(found, by_loop(rows, FOUR[:, :3], FOUR[FOUR[:, 3] >= 0], **settings), rows)


def test_everything_is_the_slow_loop(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    rows.requires_grad_()
    n, y = range(len(rows)), labels.tolist()
    three = [(a, p, k) for a in n for p in n for k in n if a != p and y[a] == y[p] != y[k]]
    four = [(*t, k) for t in three for k in n if y[k] not in (y[t[0]], y[t[2]])]
    loss = create("quadruplet", margin1=0.5, margin2=0.3, miner="all")
    lists = torch.tensor(three).reshape(-1, 3), torch.tensor(four).reshape(-1, 4)
    wanted = by_loop(rows, *lists, False, 0.5, 0.3)
    same(loss(rows, labels), wanted, rows)
    same(loss(rows, labels, weights=torch.ones_like(rows[:, 0])), wanted, rows)
    given = create("quadruplet", margin1=0.5, margin2=0.3)
    given(rows, labels, tuples=torch.nn.functional.pad(lists[0], (0, 1), value=-1))
    triplets = int(given.active)
    assert triplets <= int(loss.active) <= triplets + len(four)


def test_the_fourth_sample_is_uniform_over_third_classes() -> None:
    labels = torch.tensor([5, -2, 5, 9, 9, 9, -2, 7])
    triplets = torch.tensor([[0, 2, 3], [3, 4, 1], [1, 6, 7], [0, 0, 2]]).repeat(4000, 1)  # the last one is switched
    fourth = draw_fourth(labels, triplets, stream(0, "fourth")).reshape(-1, 4)
    for column, allowed in zip(fourth.T, ([1, 6, 7], [0, 2, 7], [0, 2, 3, 4, 5], [1, 3, 4, 5, 6, 7]), strict=True):
        shares = torch.bincount(column, minlength=8) / 4000
        wanted = torch.zeros(8).index_fill_(0, torch.tensor(allowed), 1 / len(allowed))
        torch.testing.assert_close(shares, wanted, rtol=0, atol=0.03)


def test_two_classes_have_no_fourth_sample_and_no_second_term() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    assert draw_fourth(labels, torch.tensor([[0, 1, 2]]), stream(0, "fourth")).tolist() == [-1]
    terms = create("quadruplet").terms(torch.eye(4), labels)
    assert terms["negatives"].item() == 0
    assert terms["triplet"].item() == pytest.approx(1)


def test_weights_belong_to_the_anchor() -> None:
    rows = torch.randn(6, 4, generator=stream(0, "rows"), dtype=torch.float64)
    labels, loss = torch.tensor([0, 0, 1, 1, 2, 2]), create("quadruplet")
    each = [loss(rows, labels, tuples=FOUR, weights=torch.eye(6, dtype=rows.dtype)[i]).item() for i in range(6)]
    assert sum(each) == pytest.approx(loss(rows, labels, tuples=FOUR).item())
    assert each[3:] == [0, 0, 0]  # nobody's anchor


def test_given_triplets_get_a_fourth_sample() -> None:
    labels, triplets = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([[0, 1, 2]])
    assert create("quadruplet")(torch.eye(6), labels, tuples=triplets).item() == pytest.approx(1.5)
    with pytest.raises(BadInput, match="needs triplets"):
        create("quadruplet")(torch.eye(6), labels, tuples=torch.tensor([[0, 1]]))
