"""Losses with class vectors beyond the golden cases: relations between them, numerical range and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from levelfield.errors import BadInput, BadSpecification
from levelfield.objectives import NormalizedSoftmax, ProxyAnchor, create, describe, names, proxy_anchor
from levelfield.randomness import stream


def sample(classes: int = 4, per_class: int = 1, dim: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, labels (one class absent) and class vectors."""
    labels = torch.tensor([0, 2, 2, 0, 1])
    rows = torch.randn(len(labels) + classes * per_class, dim, generator=stream(3, "loops"), dtype=torch.float64)
    return rows[: len(labels)], labels, rows[len(labels) :]


def value_of(name: str, vectors: Tensor | None = None, **settings: object) -> float:
    """The loss of the sample, with its class vectors or others."""
    rows, labels, proxies = sample()
    loss = create(name, num_classes=4, dim=3, **settings).double()
    with torch.no_grad():
        loss.class_vectors.copy_(proxies if vectors is None else vectors)
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
    own = math.cos(0.5) if sign > 0 else -1 - 0.5 * math.sin(0.5)
    # the definition takes the logarithm of a sum near 1, which is rounded to eps
    exact, eps = math.log(math.exp(4 * own) + 1) - 4 * own, torch.finfo(dtype).eps
    assert value.item() == pytest.approx(exact, rel=1e-6, abs=eps)
    assert all(slope.isfinite().all() for slope in torch.autograd.grad(value, [rows, loss.proxies]))


@pytest.mark.parametrize(
    "name", ["softmax", "normalized_softmax", "cosface", "arcface", "proxy_nca_pp", "proxy_triplet"]
)
def test_one_class_has_nothing_to_learn(name: str) -> None:
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = create(name, num_classes=1, dim=4)(rows, torch.zeros(3, dtype=torch.int64))
    assert value.item() == 0
    assert not torch.autograd.grad(value, rows)[0].any()


def test_samples_whose_probability_underflows_still_count() -> None:
    loss = create("proxy_nca", num_classes=2, dim=2, scale=500.0, include_true=True)
    with torch.no_grad():
        loss.proxies.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    rows = torch.tensor([[1.0, 0.1]], requires_grad=True)
    value = loss(rows, torch.tensor([1]))
    assert value.item() == pytest.approx(2000 / math.hypot(1, 0.1), rel=1e-5)
    assert torch.autograd.grad(value, rows)[0].abs().max() > 1


@pytest.mark.parametrize("name", [name for name in names() if "num_classes" in describe(name).needs])
def test_a_label_without_class_is_refused(name: str) -> None:
    for label in (4, -1, -100):
        with pytest.raises(BadInput, match=f"got the label {label}"):
            create(name, num_classes=4, dim=4)(torch.eye(4)[:2], torch.tensor([0, label]))


def test_a_zero_row_gives_log_of_the_classes_and_no_gradient() -> None:
    rows = torch.zeros(1, 4, requires_grad=True)
    value = NormalizedSoftmax(num_classes=6, dim=4)(rows, torch.tensor([2]))
    assert value.item() == pytest.approx(math.log(6))
    assert not torch.autograd.grad(value, rows)[0].any()


def test_dropout_hides_coordinates_while_training_only(batch: tuple[Tensor, Tensor]) -> None:
    plain = NormalizedSoftmax(num_classes=10, dim=5).double()
    loss = NormalizedSoftmax(num_classes=10, dim=5, dropout=0.5).double()
    assert not loss.separable
    assert loss.eval()(*batch).item() == plain(*batch).item()
    loss.train()
    rows = batch[0].clone().requires_grad_()
    value = loss(rows, batch[1], generator=stream(0, "dropout"))
    terms = loss.terms(*batch, generator=stream(0, "dropout"))
    assert terms["classification"].item() == pytest.approx(value.item(), rel=1e-12)
    assert (torch.autograd.grad(value, rows)[0] == 0).any()
    assert value.item() != plain(*batch).item()


def test_one_centre_is_cosface_and_so_are_equal_ones() -> None:
    cosface, proxies = value_of("cosface", scale=6.0, margin=0.1), sample()[2]
    for count in (1, 3):
        settings = {"la": 6.0, "delta": 0.1, "tau": 0.0, "centers_per_class": count}
        found = value_of("soft_triple", proxies.repeat_interleave(count, 0), **settings)
        assert found == pytest.approx(cosface, rel=1e-12)


def test_small_gamma_takes_the_best_centre() -> None:
    rows, labels, centers = sample(per_class=2)
    best = torch.nn.functional.cosine_similarity(rows[:, None], centers[None], dim=2).view(-1, 4, 2).amax(2)
    expected = torch.nn.functional.cross_entropy(20 * best, labels).item()
    loss = create("soft_triple", num_classes=4, dim=3, gamma=1e-4, delta=0.0, tau=0.0, centers_per_class=2).double()
    with torch.no_grad():
        loss.centers.copy_(centers)
    assert loss(rows, labels).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parallel_centres_have_finite_gradients(dtype: torch.dtype) -> None:
    loss = create("soft_triple", num_classes=2, dim=3, centers_per_class=2).to(dtype)
    with torch.no_grad():
        loss.centers[1] = 2 * loss.centers[0]
    rows = torch.eye(3, dtype=dtype)[:2].requires_grad_()
    loss(rows, torch.tensor([0, 1])).backward()
    assert loss.centers.grad.isfinite().all()


def test_the_second_backward_and_another_upstream_gradient_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_anchor, "MANY", 0)
    loss = ProxyAnchor(num_classes=3, dim=4)
    rows = torch.randn(5, 4, generator=stream(0, "rows"), requires_grad=True)
    value = loss(rows, torch.tensor([0, 0, 1, 1, 1]))
    first, second = (torch.autograd.grad(3 * value, [rows, loss.proxies], retain_graph=True) for _ in range(2))
    defined = torch.autograd.grad(sum(loss.terms(rows, torch.tensor([0, 0, 1, 1, 1])).values()), [rows, loss.proxies])
    for one, two, plain in zip(first, second, defined, strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, 3 * plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("normalized_softmax", {"temperature": 0}, "temperature"),
        ("normalized_softmax", {"temperature": float("nan")}, "temperature"),
        ("normalized_softmax", {"temperature": "0.05"}, "temperature"),
        ("normalized_softmax", {"temperature": True}, "temperature"),
        ("normalized_softmax", {"label_smoothing": 0.8}, "label_smoothing"),
        ("proxy_nca", {"num_classes": 1}, "num_classes"),
        ("proxy_nca", {"label_smoothing": 0.1}, "include_true"),
        ("proxy_anchor", {"num_classes": None, "dim": None}, "'proxy_anchor' needs num_classes and dim"),
        ("soft_triple", {"centers_per_class": 1.5}, "centers_per_class"),
    ],
)
def test_wrong_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpecification, match=message):
        create(name, **{"num_classes": 3, "dim": 2, **settings})


def test_weights_of_proxy_anchor_are_refused_because_its_anchors_are_proxies() -> None:
    with pytest.raises(BadInput, match="takes no weights"):
        create("proxy_anchor", num_classes=3, dim=2)(torch.eye(2), torch.tensor([0, 1]), weights=torch.ones(2))
