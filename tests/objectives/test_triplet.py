from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from levelfield.errors import BadInput
from levelfield.miners import create as create_miner
from levelfield.objectives import Triplet, create
from levelfield.randomness import stream


def by_loop(
    rows: Tensor, labels: Tensor, *, margin: float, power: int, smooth: bool, swap: bool, nonzero: bool
) -> float:
    """roth2020 eq. 2 over every triplet, one after the other."""
    points, n, terms = rows.tolist(), len(rows), []
    for a in range(n):
        for p in range(n):
            for k in range(n):
                if a != p and labels[a] == labels[p] != labels[k]:
                    to_negative = math.dist(points[a], points[k]) ** power
                    if swap:
                        to_negative = min(to_negative, math.dist(points[p], points[k]) ** power)
                    x = math.dist(points[a], points[p]) ** power - to_negative + margin
                    terms.append(math.log1p(math.exp(x)) if smooth else max(0.0, x))
    counted = [term for term in terms if term > 0] if nonzero else terms
    return sum(terms) / max(1, len(counted))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "mean_nonzero"])
def test_all_triplets_are_the_slow_loop(
    batch: tuple[Tensor, Tensor], smooth: bool, swap: bool, squared: bool, reduction: str
) -> None:
    settings = {"smooth": smooth, "swap": swap, "squared": squared, "reduction": reduction, "margin": 0.7}
    loss = create("triplet", normalize=False, miner="all", **settings)
    nonzero = reduction == "mean_nonzero"
    slow = by_loop(*batch, margin=0.7, power=1 + squared, smooth=smooth, swap=swap, nonzero=nonzero)
    assert loss(*batch).item() == pytest.approx(slow, rel=1e-10)


def test_all_triplets_at_once_equal_all_triplets_listed(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    listed = create_miner("all")(rows, labels)
    weights = torch.linspace(0.5, 2, len(rows), dtype=rows.dtype)
    found = []
    for tuples in (None, listed):
        leaf = rows.clone().requires_grad_()
        value = create("triplet", miner="all", swap=True)(leaf, labels, tuples=tuples, weights=weights)
        value.backward()
        found.append((value.detach(), leaf.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)


class LargestTensor(TorchDispatchMode):
    """Watches every operation, forward and backward, for the most numbers in one tensor."""

    size = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return result


def test_all_triplets_of_large_classes_build_nothing_cubic() -> None:
    rows = torch.randn(96, 8, generator=stream(0, "large"), requires_grad=True)
    labels = torch.arange(96) % 2  # 216,576 triplets
    with LargestTensor() as largest:
        create("triplet", miner="all", smooth=True)(rows, labels).backward()
    assert largest.size == 96 * 96


def test_semihard_takes_the_objectives_margin_unless_told_otherwise() -> None:
    assert Triplet(margin=0.5).miner == create_miner("semihard", margin=0.5)
    assert Triplet(margin=0.5, miner={"semihard": {"margin": 0.1}}).miner == create_miner("semihard", margin=0.1)


def test_a_tuple_with_the_anchor_as_its_own_positive_has_finite_gradient() -> None:
    rows = torch.randn(3, 4, generator=stream(0, "switched"), requires_grad=True)
    create("triplet", margin=1.5)(rows, torch.tensor([0, 0, 1]), tuples=torch.tensor([[0, 0, 1]])).backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
    assert rows.grad[0].abs().sum() > 0


def test_pairs_instead_of_triplets_are_refused() -> None:
    with pytest.raises(BadInput, match=r"'triplet' needs triplets, a tensor of shape \(t, 3\), but got .* \(1, 2\)"):
        create("triplet")(torch.eye(2), torch.tensor([0, 0]), tuples=torch.tensor([[0, 1]]))
