from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.geometry import Geometry
from levelfield.miners import create as create_miner
from levelfield.objectives import create


def by_loop(rows: Tensor, labels: Tensor, *, epsilon: float | None, valid: bool) -> float:
    """roth2020 eq. 11-12 (corrected), anchor by anchor; alpha 2, beta 10, base 0.4."""
    unit = [[x / math.hypot(*row) for x in row] for row in rows.tolist()]
    s = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in unit] for x in unit]
    n, total, anchors = len(s), 0.0, 0
    for i in range(n):
        positive = [s[i][j] for j in range(n) if j != i and labels[j] == labels[i]]
        negative = [s[i][j] for j in range(n) if labels[j] != labels[i]]
        if epsilon is not None:
            hardest_n, hardest_p = max(negative, default=-math.inf), min(positive, default=math.inf)
            positive = [x for x in positive if x < hardest_n + epsilon]
            negative = [x for x in negative if x > hardest_p - epsilon]
        anchors += bool(positive or negative)
        total += math.log(1 + sum(math.exp(-2 * (x - 0.4)) for x in positive)) / 2
        total += math.log(1 + sum(math.exp(10 * (x - 0.4)) for x in negative)) / 10
    return total / max(1, anchors if valid else n)


@pytest.mark.parametrize("epsilon", [None, 0.1, -0.2])
@pytest.mark.parametrize("reduction", ["batch", "valid"])
def test_multi_similarity_is_the_slow_loop(batch: tuple[Tensor, Tensor], epsilon: float | None, reduction: str) -> None:
    loss = create("multi_similarity", alpha=2, beta=10, base=0.4, epsilon=epsilon, reduction=reduction)
    slow = by_loop(*batch, epsilon=epsilon, valid=reduction == "valid")
    assert loss(*batch).item() == pytest.approx(slow, rel=1e-10)


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


def test_triplets_are_refused() -> None:
    with pytest.raises(BadInput, match="two lists of pairs"):
        create("multi_similarity")(torch.eye(3), torch.tensor([0, 0, 1]), tuples=torch.tensor([[0, 1, 2]]))


def test_another_miner_is_refused() -> None:
    with pytest.raises(BadSpecification, match="takes no miner"):
        create("multi_similarity", miner="random")
