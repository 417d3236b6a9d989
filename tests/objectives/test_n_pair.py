from __future__ import annotations

import pytest
import torch
from slow_loops import assert_is_the_loop, negatives, positive_pairs, total
from torch import Tensor

from levelfield.errors import BadInput
from levelfield.objectives import create
from levelfield.randomness import stream

UNEVEN = torch.tensor([5, 9, 5, 5, 9, 7, 5, 2])
PAIRS = torch.tensor([[0, 2], [3, 0], [4, 1], [0, 2], [0, 6]])  # an anchor may come twice, a pair too


def rows_of(labels: Tensor) -> Tensor:
    return torch.randn(len(labels), 5, generator=stream(3, "n_pair"), dtype=torch.float64)


def term(x: Tensor, labels: list[int], a: int, p: int) -> Tensor:
    return torch.log(1 + total((x[a] @ x[n] - x[a] @ x[p]).exp() for n in negatives(labels, a)))


def all_by_loop(x: Tensor, labels: list[int], nu: float, power: int) -> Tensor:
    """roth2020 eq. 4: every positive, divided by the batch size."""
    terms = [term(x, labels, a, p) for a, p in positive_pairs(labels)]
    return total(terms) / len(x) + nu * total(row.norm() ** power for row in x) / len(x)


def sampled_by_loop(x: Tensor, labels: list[int], pairs: list[list[int]], nu: float, power: int) -> Tensor:
    terms = [term(x, labels, a, p) for a, p in pairs]
    return total(terms) / max(1, len(terms)) + nu * total(row.norm() ** power for row in x) / len(x)


def pairs_by_loop(
    x: Tensor, labels: list[int], pairs: list[list[int]], nu: float, power: int, symmetric: bool = False
) -> Tensor:
    """fehervari2019 eq. 3 with the dot product: the negatives of a pair are the positives of pairs of other classes."""
    terms = []
    for a, p in pairs:
        rest = [(b, q) for b, q in pairs if labels[b] != labels[a]]
        terms.append(torch.log(1 + total((x[a] @ x[q] - x[a] @ x[p]).exp() for _, q in rest)))
        if symmetric:
            swapped = torch.log(1 + total((x[p] @ x[b] - x[a] @ x[p]).exp() for b, _ in rest))
            terms[-1] = (terms[-1] + swapped) / 2
    norm = total(x[a].norm() ** power + x[p].norm() ** power for a, p in pairs)
    return (total(terms) + nu * norm) / max(1, len(pairs))


@pytest.mark.parametrize(("nu", "power"), [(0.005, 2), (0.3, 1), (0.0, 2)])
def test_all_is_the_slow_loop(batch: tuple[Tensor, Tensor], nu: float, power: int) -> None:
    loss = create("n_pair", form="all", nu=nu, nu_power=power)
    assert_is_the_loop(loss, lambda rows, labels: all_by_loop(rows, labels, nu, power), batch)


@pytest.mark.parametrize(("nu", "power"), [(0.005, 2), (0.3, 1)])
def test_given_pairs_are_the_slow_loop(nu: float, power: int) -> None:
    batch = rows_of(UNEVEN), UNEVEN
    loss = create("n_pair", form="sampled", nu=nu, nu_power=power)
    loop = lambda rows, labels: sampled_by_loop(rows, labels, PAIRS.tolist(), nu, power)  # noqa: E731
    assert_is_the_loop(loss, loop, batch, tuples=PAIRS)
    triplets = torch.cat((PAIRS, PAIRS[:, :1]), 1)
    assert_is_the_loop(loss, loop, batch, tuples=triplets)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 2], [4, 7, 4, 4, 7, 1], [3, 3, 3], [1, 2]])
def test_pairs_are_the_slow_loop_over_the_first_pair_of_each_class(labels: list[int], symmetric: bool) -> None:
    first: dict[int, list[int]] = {}
    for row, label in enumerate(labels):
        first.setdefault(label, []).append(row)
    pairs = [members[:2] for members in first.values() if len(members) > 1]
    loss = create("n_pair", form="pairs", symmetric=symmetric)
    tensor = torch.tensor(labels)
    loop = lambda rows, labels: pairs_by_loop(rows, labels, pairs, 0.005, 2, symmetric)  # noqa: E731
    assert_is_the_loop(loss, loop, (rows_of(tensor), tensor))


def test_pairs_of_one_class_are_not_each_others_negatives() -> None:
    pairs = torch.tensor([[0, 2], [3, 6], [4, 1]])  # two of class 5
    loss = create("n_pair", form="pairs", nu_power=1)
    loop = lambda rows, labels: pairs_by_loop(rows, labels, pairs.tolist(), 0.005, 1)  # noqa: E731
    assert_is_the_loop(loss, loop, (rows_of(UNEVEN), UNEVEN), tuples=pairs)


def test_soft_target_aims_at_all_columns_of_the_class() -> None:
    pairs, x = torch.tensor([[0, 2], [3, 6], [4, 1]]), rows_of(UNEVEN)
    logits = x[pairs[:, 0]] @ x[pairs[:, 1]].T
    target = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    loss = create("n_pair", form="pairs", nu=0.0, equal_class="soft_target")
    wanted = torch.nn.functional.cross_entropy(logits, target)
    torch.testing.assert_close(loss(x, UNEVEN, tuples=pairs), wanted)


def test_every_anchor_counts_once_when_mined() -> None:
    rows, labels = torch.eye(6), torch.tensor([0, 0, 0, 1, 1, 2])
    loss = create("n_pair", nu=0.0)
    expected = (3 * torch.tensor(4.0).log() + 2 * torch.tensor(5.0).log()) / 5  # three and four negatives
    torch.testing.assert_close(loss(rows, labels), expected)
    assert int(loss.active) == 5


def test_numbers_of_any_size_are_finite_and_right() -> None:
    rows = (1000 * torch.eye(4)[[0, 1, 0, 1]]).requires_grad_()
    value = create("n_pair", form="all", nu=0.0)(rows, torch.tensor([0, 0, 1, 1]))
    assert value.item() == pytest.approx(1e6)
    value.backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


def test_the_whole_batch_takes_no_tuples() -> None:
    with pytest.raises(BadInput, match="form 'all'"):
        create("n_pair", form="all")(torch.eye(2), torch.tensor([0, 0]), tuples=torch.tensor([[0, 1]]))


@pytest.mark.parametrize("name", ["n_pair", "angular"])
@pytest.mark.parametrize("form", ["sampled", "pairs"])
def test_tuples_that_are_no_pairs_are_refused_and_none_at_all_is_zero(name: str, form: str) -> None:
    loss, rows, labels = create(name, form=form, nu=0.0), torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(BadInput, match=r"\(N, 2\)"):
        loss(rows, labels, tuples=torch.tensor([0, 1]))
    assert loss(rows, labels, tuples=torch.tensor([])).item() == 0
