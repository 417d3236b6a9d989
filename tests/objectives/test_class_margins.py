"""Softmax, CosFace, ArcFace, ProxyNCA, ProxyNCA++, proxy triplet: loops from the equations, and relations between
them."""

from __future__ import annotations

import math

import pytest
import torch
from class_loops import Loop, Rows, agrees, cosine, entropy, sample

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import create


def mean_entropy(logit: object) -> Loop:
    """Mean cross-entropy of logit(x, p, own)."""
    assert callable(logit)

    def loop(rows: Rows, labels: list[int], vectors: Rows) -> float:
        terms = [
            entropy([logit(x, p, c == y) for c, p in enumerate(vectors)], y) for x, y in zip(rows, labels, strict=True)
        ]
        return sum(terms) / len(terms)

    return loop


def squared(x: list[float], p: list[float]) -> float:
    return sum((a / math.hypot(*x) - b / math.hypot(*p)) ** 2 for a, b in zip(x, p, strict=True))


def dot(x: list[float], p: list[float]) -> float:
    return sum(a * b for a, b in zip(x, p, strict=True))


def with_margin(s: float, margin: float, beyond_pi: str) -> float:
    angle = math.acos(s)
    if beyond_pi == "linear" and angle > math.pi - margin:
        return s - margin * math.sin(margin)
    return math.cos(angle + margin)


def proxy_nca(rows: Rows, labels: list[int], vectors: Rows) -> float:
    """fehervari2019 eq. 14, scale 9."""
    total = 0.0
    for x, y in zip(rows, labels, strict=True):
        others = sum(math.exp(-9 * squared(x, p)) for c, p in enumerate(vectors) if c != y)
        total -= math.log(math.exp(-9 * squared(x, vectors[y])) / others)
    return total / len(rows)


def proxy_triplet(reduction: str) -> Loop:
    def loop(rows: Rows, labels: list[int], vectors: Rows) -> float:
        hinges = [
            max(0.0, 2 * squared(x, vectors[y]) - 2 * squared(x, p) + 0.3)
            for x, y in zip(rows, labels, strict=True)
            for c, p in enumerate(vectors)
            if c != y
        ]
        active = sum(h > 0 for h in hinges)
        return sum(hinges) / {"sum": len(rows), "mean": len(hinges), "active": max(1, active)}[reduction]

    return loop


LOOPS: dict[str, tuple[str, dict[str, object], str, Loop]] = (
    {
        "softmax": ("softmax", {"temperature": 0.4}, "weight", mean_entropy(lambda x, p, own: dot(x, p) / 0.4)),
        "cosface": (
            "cosface",
            {"scale": 5.0, "margin": 0.3},
            "proxies",
            mean_entropy(lambda x, p, own: 5 * (cosine(x, p) - 0.3 * own)),
        ),
        "proxy_nca": ("proxy_nca", {}, "proxies", proxy_nca),
        "proxy_nca included": (
            "proxy_nca",
            {"include_true": True, "scale": 2.0},
            "proxies",
            mean_entropy(lambda x, p, own: -2 * squared(x, p)),
        ),
        "proxy_nca_pp": (
            "proxy_nca_pp",
            {"temperature": 0.5},
            "proxies",
            mean_entropy(lambda x, p, own: -squared(x, p) / 0.5),
        ),
    }
    | {
        f"arcface {beyond}": (
            "arcface",
            {"scale": 4.0, "margin": 1.2, "beyond_pi": beyond},
            "proxies",
            mean_entropy(
                lambda x, p, own, beyond=beyond: 4 * (with_margin(cosine(x, p), 1.2, beyond) if own else cosine(x, p))
            ),
        )
        for beyond in ("linear", "plain")
    }
    | {
        f"proxy_triplet {reduction}": (
            "proxy_triplet",
            {"scale": 2.0, "margin": 0.3, "reduction": reduction},
            "proxies",
            proxy_triplet(reduction),
        )
        for reduction in ("sum", "mean", "active")
    }
)


@pytest.mark.parametrize("case", LOOPS)
def test_value_and_gradients_are_the_slow_loop(case: str) -> None:
    name, settings, parameter, loop = LOOPS[case]
    agrees(create(name, num_classes=4, dim=3, **settings), parameter, loop)


def value_of(name: str, **settings: object) -> float:
    rows, labels, vectors = sample()
    loss = create(name, num_classes=4, dim=3, **settings).double()
    with torch.no_grad():
        loss.proxies.copy_(vectors)
    return loss(rows, labels).item()


@pytest.mark.parametrize(
    ("name", "settings", "temperature"),
    [
        ("cosface", {"scale": 7.0, "margin": 0.0}, 1 / 7),
        ("arcface", {"scale": 7.0, "margin": 0.0}, 1 / 7),
        ("proxy_nca", {"scale": 3.0, "include_true": True}, 1 / 6),
        ("proxy_nca_pp", {"temperature": 0.3}, 0.15),
    ],
)
def test_without_margin_all_are_normalized_softmax(name: str, settings: dict[str, object], temperature: float) -> None:
    plain = value_of("normalized_softmax", temperature=temperature)
    assert value_of(name, **settings) == pytest.approx(plain, rel=1e-12)


def test_leaving_the_true_class_out_adds_the_log_of_the_rest() -> None:
    rows, labels, vectors = sample()
    logits = 6 * torch.nn.functional.cosine_similarity(rows[:, None], vectors[None], dim=2)
    rest = torch.log(1 - logits.softmax(1)[torch.arange(len(labels)), labels]).mean().item()
    included = value_of("proxy_nca", scale=3.0, include_true=True)
    assert value_of("proxy_nca", scale=3.0) == pytest.approx(included + rest, rel=1e-10)


def test_both_conventions_of_smoothing_are_one_family() -> None:
    others = value_of("proxy_nca", include_true=True, label_smoothing=0.09, smoothing="others")
    assert value_of("proxy_nca", include_true=True, label_smoothing=0.12, smoothing="all") == pytest.approx(others)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arcface_on_its_proxy_has_the_right_value_and_finite_gradients(sign: int, dtype: torch.dtype) -> None:
    loss = create("arcface", num_classes=2, dim=2, scale=4.0, margin=0.5).to(dtype)
    with torch.no_grad():
        loss.proxies.copy_(torch.eye(2))
    rows = torch.tensor([[3.0 * sign, 0.0]], dtype=dtype, requires_grad=True)
    value = loss(rows, torch.tensor([0]))
    value.backward()
    own = math.cos(0.5) if sign > 0 else -1 - 0.5 * math.sin(0.5)
    # the definition takes the logarithm of a sum near 1, which is rounded to eps
    exact, eps = math.log(math.exp(4 * own) + 1) - 4 * own, torch.finfo(dtype).eps
    assert value.item() == pytest.approx(exact, rel=1e-6, abs=eps)
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
    assert loss.proxies.grad.isfinite().all()


@pytest.mark.parametrize(
    "name", ["softmax", "normalized_softmax", "cosface", "arcface", "proxy_nca_pp", "proxy_triplet"]
)
def test_one_class_has_nothing_to_learn(name: str) -> None:
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = create(name, num_classes=1, dim=4)(rows, torch.zeros(3, dtype=torch.int64))
    value.backward()
    assert value.item() == 0
    assert rows.grad is not None
    assert not rows.grad.any()


def test_proxy_nca_refuses_one_class_and_smoothing_without_the_true_class() -> None:
    with pytest.raises(BadSpecification, match="num_classes"):
        create("proxy_nca", num_classes=1, dim=4)
    with pytest.raises(BadSpecification, match="include_true"):
        create("proxy_nca", num_classes=3, dim=4, label_smoothing=0.1)


def test_samples_whose_probability_underflows_still_count() -> None:
    loss = create("proxy_nca", num_classes=2, dim=2, scale=500.0, include_true=True)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    rows = torch.tensor([[1.0, 0.1]], requires_grad=True)
    value = loss(rows, torch.tensor([1]))
    value.backward()
    assert value.item() == pytest.approx(2000 / math.hypot(1, 0.1), rel=1e-5)
    assert rows.grad is not None
    assert rows.grad.abs().max() > 1


def test_a_label_without_class_is_refused_by_all() -> None:
    for name in ("softmax", "cosface", "arcface", "proxy_nca", "proxy_nca_pp", "proxy_triplet", "soft_triple"):
        with pytest.raises(BadInput, match="got the label 3"):
            create(name, num_classes=3, dim=2)(torch.eye(2), torch.tensor([0, 3]))


def test_active_counts_the_violated_proxies() -> None:
    loss = create("proxy_triplet", num_classes=3, dim=2, margin=1.0)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]]))
    loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert int(loss.active) == 1  # 0.4 beyond the own proxy; the opposite one is 4 away
