from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_loops import assert_is_the_loop, negatives, positive_pairs, total
from torch import Tensor

from levelfield.objectives import create
from levelfield.randomness import stream

UNEVEN = torch.tensor([5, 9, 5, 5, 9, 7, 5, 2])
PAIRS = torch.tensor([[0, 2], [3, 0], [4, 1], [0, 2]])
ROWS = torch.randn(8, 5, generator=stream(4, "angular"), dtype=torch.float64)


def unit(rows: Tensor, normalize: bool) -> Tensor:
    return rows / rows.norm(dim=1, keepdim=True) if normalize else rows


def term(a: Tensor, p: Tensor, negatives: list[Tensor], alpha: float) -> Tensor:
    """fehervari2019 eq. 5."""
    t = math.tan(math.radians(alpha)) ** 2
    return torch.log(1 + total((4 * t * (a + p) @ n - 2 * (1 + t) * (a @ p)).exp() for n in negatives))


def by_loop(
    rows: Tensor,
    labels: list[int],
    pairs: list[list[int]] | None,
    *,
    alpha: float = 45.0,
    normalize: bool = True,
    angular_weight: float = 2.0,
    npair_weight: float = 1.0,
    nu: float = 0.005,
    nu_power: int = 2,
) -> Tensor:
    x = unit(rows, normalize)
    listed = positive_pairs(labels) if pairs is None else pairs
    angles = total(term(x[a], x[p], [x[n] for n in negatives(labels, a)], alpha) for a, p in listed)
    n_pair = total(
        torch.log(1 + total((rows[a] @ rows[n] - rows[a] @ rows[p]).exp() for n in negatives(labels, a)))
        for a, p in listed
    )
    n_pair = n_pair / (len(rows) if pairs is None else max(1, len(pairs)))
    norm = nu * total(row.norm() ** nu_power for row in rows) / len(rows)
    return npair_weight * n_pair + angular_weight * angles / max(1, len(listed)) + norm


VARIANTS: list[dict[str, Any]] = [
    {},
    {"npair_weight": 0.0, "nu": 0.0},
    {"npair_weight": 0.5, "angular_weight": 1.0, "nu": 0.1, "nu_power": 1, "alpha": 30.0},
    {"normalize": False, "alpha": 20.0},
    {"npair_weight": 0.0, "alpha": 65.0},
]


@pytest.mark.parametrize("settings", VARIANTS)
def test_all_is_the_slow_loop(batch: tuple[Tensor, Tensor], settings: dict[str, Any]) -> None:
    loss = create("angular", form="all", **settings)
    assert_is_the_loop(loss, lambda rows, labels: by_loop(rows, labels, None, **settings), batch)


@pytest.mark.parametrize("settings", VARIANTS)
def test_given_pairs_are_the_slow_loop(settings: dict[str, Any]) -> None:
    loss = create("angular", form="sampled", **settings)
    loop = lambda rows, labels: by_loop(rows, labels, PAIRS.tolist(), **settings)  # noqa: E731
    assert_is_the_loop(loss, loop, (ROWS, UNEVEN), tuples=PAIRS)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_pair_batches_are_the_slow_loop(symmetric: bool, normalize: bool) -> None:
    pairs = [[0, 2], [1, 4]]  # the first pair of each class

    def loop(rows: Tensor, labels: list[int]) -> Tensor:
        x, terms = unit(rows, normalize), []
        for (a, p), (b, q) in (pairs, pairs[::-1]):
            terms.append(term(x[a], x[p], [x[q]], 45.0))
            if symmetric:
                terms[-1] = (terms[-1] + term(x[p], x[a], [x[b]], 45.0)) / 2
        return (total(terms) + 0.005 * total(rows[row].square().sum() for pair in pairs for row in pair)) / 2

    loss = create("angular", form="pairs", symmetric=symmetric, normalize=normalize, npair_weight=0, angular_weight=1)
    assert_is_the_loop(loss, loop, (ROWS, UNEVEN), tuples=torch.tensor(pairs))
    assert_is_the_loop(loss, loop, (ROWS, UNEVEN))


def test_raw_rows_of_any_length_are_finite() -> None:
    rows = (1e4 * ROWS.float()).requires_grad_()
    value = create("angular", form="all", normalize=False)(rows, UNEVEN)
    value.backward()
    assert value.isfinite()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
