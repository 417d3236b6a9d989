from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.objectives import create
from levelfield.randomness import stream

VARIANTS: dict[str, dict[str, Any]] = {
    "all triplets": {},
    "mean, uncentred": {"reduction": "mean", "centered": False, "margin": 0.7},
    "raw, regularised anchors": {"normalize": False, "lam": 0.3, "reg_over": "anchors"},
    "pairs": {"form": "contrastive", "pos_margin": 0.3, "neg_margin": 1.4},
    "raw pairs": {"form": "contrastive", "normalize": False, "reduction": "mean"},
}
Triplets = list[list[int]]


def by_loop(rows: Tensor, labels: Tensor, settings: dict[str, Any], triplets: Triplets | None = None) -> Tensor:
    """roth2020 eq. 15 with its squares restored, tuple by tuple; constant anchors are left out."""
    get = {"margin": 0.2, "pos_margin": 0.0, "neg_margin": 1.0, "lam": 0.005, **settings}
    if get.get("normalize", True):
        rows = rows / rows.norm(dim=1, keepdim=True)
    n, zero = range(len(rows)), 0.0 * rows.sum()
    spread = (lambda x: x.var()) if get.get("centered", True) else (lambda x: x.square().sum())

    def ratio(a: int, j: int) -> Tensor:
        return spread(rows[a] - rows[j]) / spread(rows[a])

    def mean(terms: list[Tensor]) -> Tensor:
        above = sum(1 for term in terms if term > 0) if get.get("reduction") != "mean" else len(terms)
        return sum(terms, zero) / max(1, above)

    if triplets is None:
        triplets = [[a, p, k] for a in n for p in n for k in n if a != p and labels[a] == labels[p] != labels[k]]
    usable = [a for a in n if spread(rows[a]) > 1e-12]
    if get.get("form") == "contrastive":
        pairs = [(a, j) for a in usable for j in n if a != j]
        value = mean([(ratio(a, j) - get["pos_margin"]).relu() for a, j in pairs if labels[a] == labels[j]])
        value = value + mean([(get["neg_margin"] - ratio(a, j)).relu() for a, j in pairs if labels[a] != labels[j]])
    else:
        value = mean([(ratio(a, p) - ratio(a, k) + get["margin"]).relu() for a, p, k in triplets if a in usable])
    anchors = [a for a, _, _ in triplets] if get.get("reg_over") == "anchors" else list(n)
    return value + get["lam"] * sum((rows[a].sum().abs() for a in anchors), zero) / max(1, len(anchors))


def same(found: Tensor, wanted: Tensor, rows: Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(value, rows)[0] for value in (found, wanted)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_everything_is_the_slow_loop(batch: tuple[Tensor, Tensor], variant: str) -> None:
    rows, labels = batch
    rows.requires_grad_()
    loss = create("snr", miner="all", **VARIANTS[variant])
    same(loss(rows, labels), by_loop(rows, labels, VARIANTS[variant]), rows)


@pytest.mark.parametrize("variant", list(VARIANTS)[:3])
def test_given_triplets_are_the_slow_loop(variant: str) -> None:
    """With a repeated triplet, a switched one, and an anchor that is constant."""
    rows = torch.randn(6, 4, generator=stream(0, "rows"), dtype=torch.float64)
    rows[4] = 0.5
    rows.requires_grad_()
    labels, triplets = torch.tensor([0, 0, 1, 1, 2, 2]), [[0, 1, 2], [0, 1, 2], [3, 3, 2], [4, 5, 0], [1, 0, 4]]
    found = create("snr", **VARIANTS[variant])(rows, labels, tuples=torch.tensor(triplets))
    same(found, by_loop(rows, labels, VARIANTS[variant], triplets), rows)


def test_the_anchor_divides() -> None:
    rows = torch.tensor([[1.0, -1.0], [3.0, -3.0]])
    loss = create("snr", form="contrastive", normalize=False, lam=0.0, miner="all", reduction="mean")
    assert loss(rows, torch.tensor([0, 0])).item() == pytest.approx((4 / 1 + 4 / 9) / 2)


def test_pairs_of_a_miner_fit(batch: tuple[Tensor, Tensor]) -> None:
    assert create("snr", form="contrastive", miner="multi_similarity", reg_over="anchors")(*batch).isfinite()


def test_a_shift_of_a_row_changes_nothing_but_the_regulariser() -> None:
    rows = torch.randn(6, 5, generator=stream(0, "rows"), dtype=torch.float64)
    labels, shift = torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6, dtype=torch.float64)[:, None]
    loss = create("snr", normalize=False, miner="all")
    first, second = loss.terms(rows, labels), loss.terms(rows + shift, labels)
    torch.testing.assert_close(first["triplet"], second["triplet"])
    assert second["zero_mean"] > first["zero_mean"]
