"""Manifold mixup: two weighted calls of the objective on mixed rows, at a depth above the cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest
from torch import nn

from levelfield import batching, methods
from levelfield.embedder import Embedder, Head, Trunk
from levelfield.embedder.trunk import backbones
from levelfield.errors import BadSpecification
from levelfield.methods import Batch, Setting
from levelfield.methods.mixup import Mixed, entries, mix
from levelfield.randomness import stream

RANKING = ("contrastive", "triplet", "margin", "snr")
LABELS = torch.arange(12) % 4


def create(name, mixup=True, **settings):
    return methods.create(
        name, num_classes=4, dim=6, generator=torch.Generator().manual_seed(0), mixup=mixup, **settings
    )


def rows(seed=0, count=12):
    return torch.randn(count, 6, generator=stream(seed, "rows"), requires_grad=True)


def total(terms):
    return sum(terms.values())


def gradient(value, of):
    return torch.autograd.grad(value, of)[0]


def network(cut, taps=("layer3", "layer4")):
    trunk = Trunk(backbones.create("resnet18", weights="random"), cut=cut, taps=taps, image=32)
    return Embedder(trunk, Head(trunk.width, 6))


@pytest.mark.parametrize("name", [*RANKING, "normalized_softmax"])
@pytest.mark.parametrize("case", ["share of 1", "everybody's own partner", "partners of one class"])
def test_without_another_class_the_loss_is_the_plain_one_to_the_bit(name, case):
    method, embeddings = create(name), rows()
    share, others = (1.0, LABELS.roll(1)) if case == "share of 1" else (0.3, LABELS)
    mixed = total(method.terms(embeddings, LABELS, others, share, stream(0, "miner")))
    plain = method.objective(embeddings, LABELS, generator=stream(0, "miner"))
    assert torch.equal(mixed, plain)
    assert torch.equal(gradient(mixed, embeddings), gradient(plain, embeddings))


@pytest.mark.parametrize("name", [*RANKING, "normalized_softmax"])
def test_a_batch_of_one_class_gives_finite_numbers(name):
    method, embeddings = create(name), rows()
    one = torch.zeros(12, dtype=torch.int64)
    value = total(method.terms(embeddings, one, one, 0.4, stream(0, "miner")))
    assert value.isfinite()
    if value.requires_grad:
        assert gradient(value, embeddings).isfinite().all()
    if name in ("triplet", "margin"):
        assert value == 0


def test_a_triplet_an_anchor_is_equation_31():
    labels, others = LABELS, LABELS.roll(1)
    method, embeddings = create("triplet", miner="random"), rows()
    value = total(method.terms(embeddings, labels, others, 0.3, stream(0, "miner")))
    generator = stream(0, "miner")
    both = entries(labels, others, 0.3)
    drawn = [method.objective.miner(embeddings, entry.labels, generator=generator) for entry in both]
    assert [len(triplets) for triplets in drawn] == [12, 12]
    unit, expected = nn.functional.normalize(embeddings, dim=1), 0.0
    for triplets, entry in zip(drawn, both, strict=True):
        for a, p, n in triplets.tolist():
            excess = (unit[a] - unit[p]).norm() - (unit[a] - unit[n]).norm() + method.objective.margin
            expected = expected + entry.weights[a] * excess.clamp_min(0) / len(unit)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient(value, embeddings), gradient(expected, embeddings))


def test_shares_follow_the_beta_law_and_layers_come_equally_often():
    method = create("triplet")
    drawn = [method.draw(4, ("a", "b"), stream(0, "draw", k)) for k in range(400)]
    shares = [share for share, _, _ in drawn]
    assert kstest(shares, beta(2, 2).cdf).pvalue > 0.001
    assert 160 < sum(layer == "a" for _, _, layer in drawn) < 240
    assert all(sorted(partner.tolist()) == [0, 1, 2, 3] for _, partner, _ in drawn)
    assert len({tuple(partner.tolist()) for _, partner, _ in drawn}) == 24


@pytest.mark.parametrize(
    ("cut", "expected"),
    [("tuned", ("input", "entrance", "layer1")), ("last-2", ("layer2", "layer3", "layer4")), ("frozen", ("features",))],
)
def test_without_a_wish_the_first_three_depths_that_train_are_mixed(cut, expected):
    assert create("triplet").depths(network(cut).trunk) == expected


@pytest.mark.parametrize(("cut", "layer"), [("last-1", "layer2"), ("frozen", "layer4"), ("last-1", "input")])
def test_a_depth_below_the_cut_is_refused_with_the_cut(cut, layer):
    embedder = network(cut)
    with pytest.raises(BadSpecification, match=f"'{layer}' with cut '{cut}'.*features"):
        create("triplet", {"layers": [layer]}).check(embedder.trunk, batching.create("random", LABELS, batch_size=4))


@pytest.mark.parametrize(
    ("cut", "layer"),
    [("tuned", "input"), ("tuned", "layer1"), ("last-1", "layer3"), ("last-1", "features"), ("frozen", "features")],
)
def test_a_step_mixes_at_the_depth_it_says(cut, layer, monkeypatch):
    embedder, images = network(cut), torch.randn(4, 3, 32, 32, generator=stream(0, "images"))
    stored = embedder.stored(images)
    share, partner = 0.3, torch.tensor([1, 2, 3, 0])
    monkeypatch.setattr(Mixed, "draw", lambda self, count, depths, generator: (share, partner, depths[0]))
    method, seen = create("contrastive", {"layers": layer}, miner="all"), []
    method.terms = lambda rows, labels, others, share, generator: seen.append((rows, others)) or {"loss": rows.sum()}
    method.step(embedder, Batch(stored, torch.tensor([0, 0, 1, 1]), np.arange(4), None, 0, 0), stream(0, "step"))
    ((made, others),) = seen
    assert others.tolist() == [0, 1, 1, 0]
    if layer == "input":
        expected = embedder(mix(images, share, partner))
    elif layer == "features":
        expected = embedder.head(mix(embedder.features(stored), share, partner))
    else:
        expected = embedder(stored, change=(layer, lambda hidden: mix(hidden, share, partner)))
        assert not torch.allclose(expected, embedder(stored))
    torch.testing.assert_close(made, expected)
    assert embedder.trunk.counter.changed >= 4


@pytest.mark.parametrize(
    ("mixup", "told"),
    [
        ({"alfa": 1}, "alpha"),
        ({"alpha": 0}, "above 0"),
        *(({"layers": layers}, "name one or more") for layers in ([], 3, {"stage1": 1})),
        *((setting, "true, or settings") for setting in (1, "strong")),
    ],
)
def test_settings_that_mean_nothing_are_refused(mixup, told):
    with pytest.raises(BadSpecification, match=told):
        create("triplet", mixup)


def test_what_cannot_be_mixed_is_refused():
    trunk, by_distance, by_role = (
        network("frozen").trunk,
        *(batching.create(name, LABELS.numpy(), batch_size=4) for name in ("ddm", "n_pair")),
    )
    with pytest.raises(BadSpecification, match="weight per anchor"):
        create("proxy_anchor")
    with pytest.raises(BadSpecification, match="'ddm' needs embeddings"):
        create("triplet").check(trunk, by_distance)
    with pytest.raises(BadSpecification, match=r"'n_pair' gives to images of a class \(anchor, positive\)"):
        create("n_pair").check(trunk, by_role)
    create("triplet").check(trunk, by_role)


def test_no_mixup_is_the_plain_method_and_mixup_is_declared():
    assert type(create("triplet", False)) is methods.Method
    assert create("triplet", {}).alpha == create("triplet", True).alpha == 2.0
    method = create("triplet")
    assert isinstance(method, Mixed)
    assert not method.separable
    assert method.deviations(Setting(6, 16))["hidden_states"] == "changed"
