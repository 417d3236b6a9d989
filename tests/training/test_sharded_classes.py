"""Classes that are divided among processes: loss and gradients equal those of the undivided objective."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from several import together
from torch import Tensor

from levelfield import objectives
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadSpecification, UnknownName
from levelfield.objectives import ShardedClasses, _sharded
from levelfield.objectives._parts import class_scores
from levelfield.randomness import stream

CLASSES, DIM = 11, 6
VARIANTS: dict[str, dict[str, Any]] = {name: {} for name in _sharded.SHARDED} | {
    "proxy_nca, true class included": {"include_true": True},
    "arcface, plain": {"beyond_pi": "plain", "margin": 0.3},
}


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Rows, labels, and the vectors of all classes; some classes have no image."""
    drawn = stream(0, "batch")
    rows = torch.randn(7, DIM, dtype=torch.float64, generator=drawn)
    return rows, torch.tensor([0, 0, 3, 10, 10, 4, 6]), torch.randn(CLASSES, DIM, dtype=torch.float64, generator=drawn)


def sharded(ranks: Ranks, variant: str, sample: float = 1.0) -> tuple[ShardedClasses, Tensor]:
    settings = VARIANTS[variant]
    loss = ShardedClasses(
        variant.partition(",")[0], num_classes=CLASSES, dim=DIM, ranks=ranks, sample=sample, **settings
    ).double()
    vectors = batch()[2]
    with torch.no_grad():
        loss.proxies.copy_(vectors[loss.local_classes])
    return loss, vectors


def results(ranks: Ranks) -> dict[str, list[Tensor]]:
    class_scores.AT_ONCE = 3  # several chunks
    rows, labels, _ = batch()
    result = {}
    for variant in VARIANTS:
        loss, _ = sharded(ranks, variant)
        leaf = rows.clone().requires_grad_()
        value = loss(leaf, labels)
        value.backward()
        result[variant] = [value.detach(), leaf.grad, loss.proxies.grad]
    return result


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_loss_over_divided_classes_is_that_of_all(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_scores, "AT_ONCE", 3)
    parts = [results(ALONE)] if size == 1 else together(size, results)
    rows, labels, vectors = batch()
    for variant, settings in VARIANTS.items():
        whole = objectives.create(variant.partition(",")[0], num_classes=CLASSES, dim=DIM, **settings).double()
        with torch.no_grad():
            whole.proxies.copy_(vectors)
        leaf = rows.clone().requires_grad_()
        value = whole(leaf, labels)
        value.backward()
        for part in parts:
            assert isinstance(part, dict), part
            torch.testing.assert_close(part[variant][0], value.detach(), rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(part[variant][1], leaf.grad, rtol=1e-9, atol=1e-11)
        of_classes = torch.cat([part[variant][2] for part in parts])
        torch.testing.assert_close(of_classes, whole.proxies.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", _sharded.SHARDED)
def test_a_sample_of_the_classes_has_those_of_the_batch_and_as_many_others_as_asked(name: str) -> None:
    rows, labels, vectors = batch()
    loss, _ = sharded(ALONE, name, sample=0.5)
    first, again, other = (loss(rows, labels, generator=stream(0, "step", step)) for step in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    loss(rows, labels, generator=stream(0, "step", 0)).backward()
    compared = loss.proxies.grad.abs().sum(1) > 0
    assert compared[labels].all()
    assert 5 <= compared.sum() < CLASSES
    some = objectives.create(name, num_classes=int(compared.sum()), dim=DIM).double()  # the loss over those alone
    with torch.no_grad():
        some.proxies.copy_(vectors[compared])
    renamed = compared.cumsum(0)[labels] - 1
    torch.testing.assert_close(some(rows, renamed), first, rtol=1e-10, atol=1e-12)


def test_what_cannot_be_divided_is_refused_with_what_can() -> None:
    with pytest.raises(UnknownName, match=r"cosface"):
        ShardedClasses("cosfacee", num_classes=5, dim=2)
    with pytest.raises(BadSpecification, match="'label_smoothing': set it to 0"):
        ShardedClasses("normalized_softmax", num_classes=5, dim=2, label_smoothing=0.1)
    with pytest.raises(BadSpecification, match="2 classes cannot be divided among 3 processes"):
        ShardedClasses("cosface", num_classes=2, dim=2, ranks=Ranks(0, 3))


def test_scores_of_all_classes_are_never_in_memory_at_once() -> None:
    """No tensor of the graph is as large as rows x classes."""
    loss = ShardedClasses("normalized_softmax", num_classes=50_000, dim=4)
    rows = torch.randn(64, 4, requires_grad=True)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: sizes.append(saved.numel()) or saved, lambda saved: saved
    ):
        loss(rows, torch.arange(64)).backward()
    assert max(sizes) <= max(50_000 * 4, 64 * class_scores.AT_ONCE)
