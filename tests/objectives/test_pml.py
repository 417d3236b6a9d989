"""Losses and miners of pytorch-metric-learning by name."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from levelfield import miners, objectives
from levelfield.errors import BadSpecification, MissingExtra, UnknownName
from levelfield.geometry import Geometry
from levelfield.randomness import stream
from levelfield.testing import ordinary

losses = pytest.importorskip("pytorch_metric_learning.losses")
theirs = pytest.importorskip("pytorch_metric_learning.miners")


def test_a_loss_is_theirs_with_our_call() -> None:
    rows, labels = ordinary()
    ours = objectives.create("pml:CircleLoss", m=0.3, gamma=64)
    assert torch.equal(ours(rows, labels), losses.CircleLoss(m=0.3, gamma=64)(rows, labels))


@pytest.mark.parametrize("name", ["ArcFaceLoss", "CosFaceLoss", "ProxyAnchorLoss", "SoftTripleLoss", "P2SGradLoss"])
def test_class_vectors_start_from_the_generator_alone(name: str) -> None:
    def parameters(seed: int) -> list[torch.Tensor]:
        made = objectives.create(f"pml:{name}", num_classes=4, dim=8, generator=stream(seed, "proxies"))
        return list(made.parameters())

    before = torch.get_rng_state()
    first, again, other = parameters(0), parameters(0), parameters(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("miner", ["semihard", "pml:TripletMarginMiner", {"pml:TripletMarginMiner": {"margin": 0.4}}])
def test_a_loss_takes_our_miners_and_theirs(miner: Any) -> None:
    rows, labels = ordinary()
    ours = objectives.create("pml:TripletMarginLoss", margin=0.3, miner=miner)
    mined = miners.resolve(miner)(Geometry(rows, normalize=True), labels, generator=stream(0, "same"))
    expected = losses.TripletMarginLoss(margin=0.3)(rows, labels, tuple(mined.T))  # type: ignore[union-attr]
    torch.testing.assert_close(ours(rows, labels, generator=stream(0, "same")), expected)


@pytest.mark.parametrize(
    "settings", [{"pml:DistanceWeightedMiner": {}}, {"pml:UniformHistogramMiner": {"num_bins": 5}}]
)
def test_what_a_miner_draws_follows_from_the_generator(settings: dict[str, Any]) -> None:
    rows, labels = ordinary()
    geometry, miner = Geometry(rows, normalize=True), miners.resolve(settings)
    before = torch.get_rng_state()
    first, again = (miner(geometry, labels, generator=stream(0, "miner")) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(first, again)


def test_pairs_come_as_pairs() -> None:
    rows, labels = ordinary()
    geometry = Geometry(rows, normalize=True)
    found = miners.create("pml:MultiSimilarityMiner", epsilon=0.1)(geometry, labels, generator=torch.Generator())
    ours = miners.create("multi_similarity", epsilon=0.1)(geometry, labels, generator=torch.Generator())
    for theirs_, own in zip(found, ours, strict=True):
        assert sorted(theirs_.tolist()) == sorted(own.tolist())
    assert objectives.create("contrastive", miner="pml:MultiSimilarityMiner")(rows, labels).isfinite()


def test_parts_that_are_objects_there_come_by_name() -> None:
    rows, labels = ordinary()
    squared: Any = {"LpDistance": {"power": 2}}
    made: Any = objectives.create("pml:TripletMarginLoss", distance=squared, reducer="MeanReducer")
    assert (made.loss.distance.power, type(made.loss.reducer).__name__) == (2, "MeanReducer")
    assert made(rows, labels).isfinite()


def test_mistakes_are_named() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'CircleLoss'"):
        objectives.create("pml:CircelLoss")
    with pytest.raises(BadSpecification, match=r"no setting 'gama'. Did you mean 'gamma'"):
        objectives.create("pml:CircleLoss", gama=2)
    with pytest.raises(BadSpecification, match=r"'pml:ArcFaceLoss' cannot be created.*num_classes"):
        objectives.create("pml:ArcFaceLoss")
    with pytest.raises(BadSpecification, match="no preset 'roth2020'"):
        objectives.create("pml:CircleLoss", preset="roth2020")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.losses", None)
    with pytest.raises(MissingExtra, match=r"pip install \"levelfield\[pml\]\""):
        objectives.create("pml:CircleLoss")
