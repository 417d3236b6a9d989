from __future__ import annotations

import math

import pytest
import torch
from class_loops import Rows, agrees, cosine, entropy, sample
from torch import Tensor

from levelfield.errors import BadSpecification
from levelfield.objectives import create


def by_loop(rows: Rows, labels: list[int], centers: Rows) -> float:
    """Qian et al. 2019 with la 6, gamma 0.2, tau 0.3, delta 0.1 and three centres a class."""
    classes, total = len(centers) // 3, 0.0
    for x, y in zip(rows, labels, strict=True):
        logits = []
        for c in range(classes):
            s = [cosine(x, w) for w in centers[3 * c : 3 * c + 3]]
            q = [math.exp(a / 0.2) for a in s]
            soft = sum(a * b for a, b in zip(q, s, strict=True)) / sum(q)
            logits.append(6 * (soft - 0.1 * (c == y)))
        total += entropy(logits, y)
    spread = sum(
        math.sqrt(2 + 1e-5 - 2 * cosine(centers[3 * c + k], centers[3 * c + m]))
        for c in range(classes)
        for k in range(3)
        for m in range(k + 1, 3)
    )
    return total / len(rows) + 0.3 * spread / (classes * 3 * 2)


def test_soft_triple_is_the_slow_loop() -> None:
    settings = {"la": 6.0, "gamma": 0.2, "tau": 0.3, "delta": 0.1, "centers_per_class": 3}
    agrees(create("soft_triple", num_classes=4, dim=3, **settings), "centers", by_loop, per_class=3)


def value_of(rows: Tensor, labels: Tensor, centers: Tensor, **settings: object) -> float:
    loss = create("soft_triple", num_classes=4, dim=3, **settings).double()
    with torch.no_grad():
        loss.centers.copy_(centers)
    return loss(rows, labels).item()


def test_one_centre_is_cosface_and_so_are_equal_ones() -> None:
    rows, labels, proxies = sample()
    cosface = create("cosface", num_classes=4, dim=3, scale=6.0, margin=0.1).double()
    with torch.no_grad():
        cosface.proxies.copy_(proxies)
    expected = cosface(rows, labels).item()
    assert value_of(rows, labels, proxies, la=6.0, delta=0.1, centers_per_class=1) == pytest.approx(expected, rel=1e-12)
    equal = proxies.repeat_interleave(3, 0)
    found = value_of(rows, labels, equal, la=6.0, delta=0.1, tau=0.0, centers_per_class=3)
    assert found == pytest.approx(expected, rel=1e-12)


def test_small_gamma_takes_the_best_centre() -> None:
    rows, labels, centers = sample(per_class=2)
    best = torch.nn.functional.cosine_similarity(rows[:, None], centers[None], dim=2).view(-1, 4, 2).amax(2)
    expected = torch.nn.functional.cross_entropy(20 * best, labels).item()
    found = value_of(rows, labels, centers, gamma=1e-4, delta=0.0, tau=0.0, centers_per_class=2)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parallel_centres_have_finite_gradients(dtype: torch.dtype) -> None:
    loss = create("soft_triple", num_classes=2, dim=3, centers_per_class=2).to(dtype)
    with torch.no_grad():
        loss.centers[1] = 2 * loss.centers[0]
    rows = torch.eye(3, dtype=dtype)[:2].requires_grad_()
    loss(rows, torch.tensor([0, 1])).backward()
    assert loss.centers.grad.isfinite().all()


def test_a_broken_number_of_centres_is_refused() -> None:
    with pytest.raises(BadSpecification, match="centers_per_class"):
        create("soft_triple", num_classes=2, dim=3, centers_per_class=1.5)
