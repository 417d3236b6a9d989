from __future__ import annotations

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import create


def by_loop(rows: Tensor, labels: Tensor, bins: int) -> Tensor:
    """roth2020 eq. 7-9, pair by pair."""
    unit = rows / rows.norm(dim=1, keepdim=True)
    step = 2 / (bins - 1)
    histograms = {True: [0.0 * rows.sum()] * bins, False: [0.0 * rows.sum()] * bins}
    counts = {True: 0, False: 0}
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            s, same = unit[i] @ unit[j], bool(labels[i] == labels[j])
            r = min(int((s.item() + 1) / step), bins - 2)
            w = (s - (-1 + r * step)) / step
            histograms[same][r] = histograms[same][r] + 1 - w
            histograms[same][r + 1] = histograms[same][r + 1] + w
            counts[same] += 1
    value = 0.0 * rows.sum()
    for r in range(bins):
        for q in range(r + 1):
            value = value + histograms[False][r] / max(1, counts[False]) * histograms[True][q] / max(1, counts[True])
    return value


@pytest.mark.parametrize("bins", [2, 11, 65])
def test_is_the_slow_loop(batch: tuple[Tensor, Tensor], bins: int) -> None:
    rows, labels = batch
    rows.requires_grad_()
    found, wanted = create("histogram", bins=bins)(rows, labels), by_loop(rows, labels, bins)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(value, rows)[0] for value in (found, wanted)), rtol=0, atol=1e-11)


def test_perfect_order_costs_nothing_and_the_reverse_one() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    loss = create("histogram")
    assert loss(rows, torch.tensor([0, 0, 1, 1])).item() == 0
    assert loss(rows[:2], torch.tensor([0, 1])).item() == 0  # no positive pair
    assert loss(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0, 1])).item() == 1


def test_wrong_use_is_refused() -> None:
    with pytest.raises(BadSpecification, match="integer"):
        create("histogram", bins=10.5)
    with pytest.raises(BadInput, match="takes no weights"):
        create("histogram")(torch.eye(2), torch.tensor([0, 0]), weights=torch.ones(2))
