from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create


def by_loop(rows: Tensor, labels: Tensor, pos_margin: float, neg_margin: float) -> float:
    """roth2020 eq. 1, pair by pair."""
    unit = [[x / math.hypot(*row) for x in row] for row in rows.tolist()]
    positive, negative = [], []
    for i, x in enumerate(unit):
        for j, y in enumerate(unit):
            if i != j and labels[i] == labels[j]:
                positive.append(max(0.0, math.dist(x, y) - pos_margin))
            elif i != j:
                negative.append(max(0.0, neg_margin - math.dist(x, y)))
    return sum(positive) / max(1, len(positive)) + sum(negative) / max(1, len(negative))


def test_all_pairs_are_the_slow_loop(batch: tuple[Tensor, Tensor]) -> None:
    loss = create("contrastive", pos_margin=0.3, neg_margin=1.3, miner="all")
    assert loss(*batch).item() == pytest.approx(by_loop(*batch, 0.3, 1.3), abs=1e-12)


def test_given_pairs_count_as_often_as_they_are_listed() -> None:
    rows = torch.tensor([[0.0], [1.0], [3.0]])
    loss = create("contrastive", neg_margin=5.0, normalize=False)
    tuples = (torch.tensor([[0, 1]]), torch.tensor([[0, 2], [0, 2], [1, 2]]))
    terms = loss.terms(rows, torch.tensor([0, 0, 1]), tuples=tuples)
    assert terms["positive"].item() == 1.0
    assert terms["negative"].item() == pytest.approx((2 + 2 + 3) / 3)


def test_pairs_of_the_multi_similarity_miner_fit(batch: tuple[Tensor, Tensor]) -> None:
    assert create("contrastive", miner="multi_similarity")(*batch).isfinite()


def test_weights_belong_to_the_anchor() -> None:
    rows, labels = torch.tensor([[0.0], [1.0]]), torch.tensor([0, 0])
    loss = create("contrastive", normalize=False, miner="all")
    assert loss(rows, labels, weights=torch.tensor([3.0, 0.0])).item() == pytest.approx((3 * 1 + 0 * 1) / 2)


def test_active_counts_the_pairs_above_zero() -> None:
    loss = create("contrastive", normalize=False, neg_margin=2.5, miner="all")
    loss(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]))
    assert int(loss.active) == 4  # both positive pairs, and 1-3 in both orders; 0-3 is beyond the margin


def test_wrong_reduction_is_refused_with_the_choices() -> None:
    with pytest.raises(BadSpecification, match="'mean', 'mean_nonzero'"):
        create("contrastive", reduction="sum")
