from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import ProxyAnchor, create, proxy_anchor
from levelfield.randomness import stream


@pytest.fixture(params=["definition", "closed form"], autouse=True)
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form otherwise needs many classes."""
    monkeypatch.setattr(proxy_anchor, "MANY", 0 if request.param == "closed form" else 10**9)


def cosine(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True)) / (math.hypot(*x) * math.hypot(*y))


def by_loop(rows: Tensor, labels: Tensor, proxies: Tensor, alpha: float, delta: float) -> float:
    """Kim et al. 2020 eq. 4, proxy by proxy."""
    pull = push = 0.0
    for c, proxy in enumerate(proxies.tolist()):
        s = [cosine(row, proxy) for row in rows.tolist()]
        pull += math.log(1 + sum(math.exp(-alpha * (x - delta)) for x, y in zip(s, labels, strict=True) if y == c))
        push += math.log(1 + sum(math.exp(alpha * (x + delta)) for x, y in zip(s, labels, strict=True) if y != c))
    return pull / len(set(labels.tolist())) + push / len(proxies)


def test_proxy_anchor_is_the_slow_loop(batch: tuple[Tensor, Tensor]) -> None:
    loss = ProxyAnchor(num_classes=11, dim=5, alpha=8, delta=0.2).double()
    assert loss(*batch).item() == pytest.approx(by_loop(*batch, loss.proxies.detach(), 8, 0.2), rel=1e-10)


def test_start_depends_on_the_generator_alone() -> None:
    first, second, other = (
        ProxyAnchor(num_classes=3, dim=4, generator=stream(seed, "proxies")).proxies for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_start_has_the_spread_of_kaiming_fan_out() -> None:
    proxies = ProxyAnchor(num_classes=200, dim=500).proxies
    assert proxies.std().item() == pytest.approx(math.sqrt(2 / 200), rel=0.02)


def test_proxies_learn_a_hundred_times_faster_unless_told_otherwise() -> None:
    assert ProxyAnchor(num_classes=2, dim=2).lr_multipliers() == {"proxies": 100.0}
    assert ProxyAnchor(num_classes=2, dim=2, proxy_lr_multiplier=1).lr_multipliers() == {"proxies": 1.0}


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_without_proxy_is_refused(label: int) -> None:
    with pytest.raises(BadInput, match=f"got the label {label}"):
        create("proxy_anchor", num_classes=3, dim=2)(torch.eye(2), torch.tensor([0, label]))


def test_missing_sizes_are_named() -> None:
    with pytest.raises(BadSpecification, match="'proxy_anchor' needs num_classes and dim"):
        create("proxy_anchor")


def test_weights_are_refused_because_the_anchors_are_proxies() -> None:
    with pytest.raises(BadInput, match="takes no weights"):
        create("proxy_anchor", num_classes=3, dim=2)(torch.eye(2), torch.tensor([0, 1]), weights=torch.ones(2))


def test_the_second_backward_and_another_upstream_gradient_are_right() -> None:
    loss = ProxyAnchor(num_classes=3, dim=4)
    rows = torch.randn(5, 4, generator=stream(0, "rows"), requires_grad=True)
    value = loss(rows, torch.tensor([0, 0, 1, 1, 1]))
    first, second = (torch.autograd.grad(3 * value, [rows, loss.proxies], retain_graph=True) for _ in range(2))
    defined = torch.autograd.grad(sum(loss.terms(rows, torch.tensor([0, 0, 1, 1, 1])).values()), [rows, loss.proxies])
    for one, two, plain in zip(first, second, defined, strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, 3 * plain, rtol=1e-4, atol=1e-5)
