from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import NormalizedSoftmax
from levelfield.randomness import stream


def cosine(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True)) / (math.hypot(*x) * math.hypot(*y))


def by_loop(rows: Tensor, labels: Tensor, proxies: Tensor, temperature: float, eps: float, spread: str) -> float:
    """Zhai & Wu 2019: cross-entropy with a smoothed target, sample by sample."""
    total, classes = 0.0, len(proxies)
    for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
        logits = [cosine(row, proxy) / temperature for proxy in proxies.tolist()]
        log_sum = math.log(sum(math.exp(x) for x in logits))
        for c, x in enumerate(logits):
            wrong = eps / (classes - 1) if spread == "others" else eps / classes
            right = 1 - eps if spread == "others" else 1 - eps + eps / classes
            total -= (right if c == label else wrong) * (x - log_sum)
    return total / len(rows)


@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("spread", ["others", "all"])
def test_normalized_softmax_is_the_slow_loop(batch: tuple[Tensor, Tensor], eps: float, spread: str) -> None:
    loss = NormalizedSoftmax(num_classes=10, dim=5, temperature=0.2, label_smoothing=eps, smoothing=spread).double()
    slow = by_loop(*batch, loss.proxies.detach(), 0.2, eps, spread)
    assert loss(*batch).item() == pytest.approx(slow, rel=1e-10)


def test_length_of_rows_and_proxies_is_irrelevant(batch: tuple[Tensor, Tensor]) -> None:
    rows, labels = batch
    loss = NormalizedSoftmax(num_classes=10, dim=5).double()
    before = loss(rows, labels).item()
    with torch.no_grad():
        loss.proxies.mul_(torch.linspace(0.1, 9, 10)[:, None])
    assert loss(rows * 7, labels).item() == pytest.approx(before, rel=1e-12)


def test_a_zero_row_gives_log_of_the_classes_and_no_gradient() -> None:
    rows = torch.zeros(1, 4, requires_grad=True)
    value = NormalizedSoftmax(num_classes=6, dim=4)(rows, torch.tensor([2]))
    value.backward()
    assert value.item() == pytest.approx(math.log(6))
    assert rows.grad is not None
    assert not rows.grad.any()


def test_the_label_minus_100_is_refused_not_ignored() -> None:
    with pytest.raises(BadInput, match="-100"):
        NormalizedSoftmax(num_classes=2, dim=2)(torch.eye(2), torch.tensor([0, -100]))


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), "0.05", True])
def test_a_temperature_that_is_none_is_refused(temperature: object) -> None:
    with pytest.raises(BadSpecification, match="temperature"):
        NormalizedSoftmax(num_classes=2, dim=2, temperature=temperature)


def test_smoothing_beyond_the_uniform_target_is_refused() -> None:
    with pytest.raises(BadSpecification, match="label_smoothing"):
        NormalizedSoftmax(num_classes=2, dim=2, label_smoothing=0.6)


def test_dropout_hides_coordinates_while_training_only(batch: tuple[Tensor, Tensor]) -> None:
    plain = NormalizedSoftmax(num_classes=10, dim=5).double()
    loss = NormalizedSoftmax(num_classes=10, dim=5, dropout=0.5).double()
    assert not loss.separable
    assert loss.eval()(*batch).item() == plain(*batch).item()
    loss.train()
    rows = batch[0].clone().requires_grad_()
    value = loss(rows, batch[1], generator=stream(0, "dropout"))
    value.backward()
    terms = loss.terms(*batch, generator=stream(0, "dropout"))
    assert terms["classification"].item() == pytest.approx(value.item(), rel=1e-12)
    assert rows.grad is not None
    assert (rows.grad == 0).any()
    assert value.item() != plain(*batch).item()
