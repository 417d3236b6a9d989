"""Stages, cuts, taps and blocks of a trunk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder import BLOCK, Backbone, Embedder, Head, Trunk, in_blocks
from levelfield.embedder.trunk.stages import Division
from levelfield.errors import BadSpecification, UnknownName
from levelfield.randomness import stream

Get = Callable[[str], Backbone]
Pictures = Callable[..., Tensor]
# the last one is divided by nobody and runs as a whole; transformers: test_transformers.py
FAMILIES = ["tf_efficientnet_lite0", "mobilenetv3_small_050", "resnet18", "convnext_atto", "regnetx_002"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("cut", ["frozen", "last-1", "tuned"])
def test_pieces_in_a_row_compute_timms_features(name, cut, backbone, pictures):
    if name == "regnetx_002" and cut == "last-1":
        with pytest.raises(BadSpecification, match="frozen or tuned"):
            Trunk(backbone(name), cut=cut)
        return
    trunk = Trunk(backbone(name), cut=cut, normalize_taps=False, channels_last=False)
    images = pictures(2)
    with torch.no_grad():
        expected = backbone(name).network.forward_features(images).mean(dim=(2, 3))
        features = trunk.above(*trunk.below(images))
    torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-5)
    assert trunk.width == expected.shape[1]
    assert trunk.stored_shapes(64) == [tuple(part.shape[1:]) for part in trunk.below(images)]


def test_taps_are_normalised_and_stand_side_by_side_in_the_order_asked_for(backbone: Get, pictures: Pictures) -> None:
    lite0, images = backbone("tf_efficientnet_lite0"), pictures(3)
    network = lite0.network
    trunk = Trunk(lite0, cut="frozen", taps=["blocks.5", "blocks.3"], pooling="grid", image=64)
    with torch.no_grad():
        maps = [network.bn1(network.conv_stem(images))]
        for stage in network.blocks:
            maps.append(stage(maps[-1]))
    expected = torch.cat([functional.normalize(maps[i + 1].flatten(1), dim=1) for i in (5, 3)], dim=1)
    torch.testing.assert_close(trunk.below(images)[0], expected, rtol=1e-4, atol=1e-6)
    assert trunk.width == 192 * 4 + 80 * 16


def test_stages_after_the_deepest_tap_are_gone(backbone: Get) -> None:
    network = backbone("resnet18").network
    trunk = Trunk(backbone("resnet18"), cut="frozen", taps=["layer1"])
    kept = [network.conv1, network.bn1, network.layer1]
    assert sum(p.numel() for p in trunk.parameters()) == sum(p.numel() for part in kept for p in part.parameters())
    vit = Trunk(backbone("vit_tiny_patch16_224"), cut="frozen", taps=["blocks.0"])
    assert not any("head" in name or "blocks_1" in name for name, _ in vit.named_parameters())


def test_cut_divides_what_trains_from_what_does_not(backbone: Get) -> None:
    trunk = Trunk(backbone("tf_efficientnet_lite0"), cut="last-2", taps=["blocks.3", "blocks.5"])
    assert {name.split(".")[1] for name, _ in trunk.trainable()} == {"blocks_4", "blocks_5"}
    to_the_end = Trunk(backbone("tf_efficientnet_lite0"), cut="last-1")
    assert {name.split(".")[1] for name, _ in to_the_end.trainable()} == {"blocks_6", "final"}
    assert Trunk(backbone("resnet18"), cut="frozen").trainable() == []
    tuned = Trunk(backbone("resnet18"), cut="tuned")
    assert len(tuned.trainable()) == len(list(tuned.parameters()))


@pytest.mark.parametrize("channels_last", [True, False])
def test_training_from_stored_maps_equals_training_the_uncut_network(channels_last, backbone, pictures):
    images = pictures(4)
    taps = ["blocks.1", "blocks.3", "blocks.5"]
    common = {"taps": taps, "pooling": "grid", "image": 64, "channels_last": channels_last}
    cut = Trunk(backbone("tf_efficientnet_lite0"), cut="last-2", **common).train()
    whole = Trunk(backbone("tf_efficientnet_lite0"), cut="tuned", **common).train()
    stored = tuple(part.clone() for part in cut.below(images))
    assert [tuple(part.shape[1:]) for part in stored] == [(80, 4, 4), (24, 16, 16)]
    assert not any(part.requires_grad for part in stored)
    weights = torch.linspace(-1, 1, cut.width)
    (cut.above(*stored) @ weights).sum().backward()
    (whole.above(*whole.below(images)) @ weights).sum().backward()
    torch.testing.assert_close(cut.above(*stored), whole.above(images), rtol=1e-4, atol=1e-5)
    gradients = dict(whole.named_parameters())
    for name, parameter in cut.trainable():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradients[name].grad, rtol=1e-3, atol=1e-4, msg=name)
    assert all(parameter.grad is None for _, parameter in cut.named_parameters() if not parameter.requires_grad)


@pytest.mark.parametrize(
    ("mode", "affine_trains", "uses_batch"),
    [("frozen", False, False), ("statistics", True, False), ("train", True, True)],
)
def test_batch_norm_modes_survive_every_call_of_train(mode, affine_trains, uses_batch, backbone):
    trunk = Trunk(backbone("resnet18"), cut="last-1", batch_norm=mode)
    trunk.train().eval().train()
    above = [m for m in trunk.pieces["layer4"].modules() if isinstance(m, nn.BatchNorm2d)]
    below = [m for m in trunk.pieces["layer3"].modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(m.training is uses_batch and m.weight.requires_grad is affine_trains for m in above)
    assert not any(m.training or m.weight.requires_grad for m in below)


def test_a_change_reaches_everything_that_leaves_the_stage(backbone: Get, pictures: Pictures) -> None:
    """Turning the batch round at any stage turns the features round, the taps before that stage included."""
    images = pictures(2)
    for cut in ("last-2", "tuned"):
        trunk = Trunk(backbone("resnet18"), cut=cut, taps=["layer1", "layer2", "layer4"])
        stored = trunk.below(images)
        with torch.no_grad():
            plain = trunk.above(*stored)
            for at in ("layer2", "layer3", "layer4"):
                swapped = trunk.above(*stored, change=(at, lambda maps: maps.flip(0)))
                torch.testing.assert_close(swapped, plain.flip(0))


def test_wrong_cuts_and_taps_say_what_is_right(backbone: Get) -> None:
    with pytest.raises(BadSpecification, match="frozen, last-N"):
        Trunk(backbone("resnet18"), cut="last")
    with pytest.raises(BadSpecification, match="more stages"):
        Trunk(backbone("resnet18"), cut="last-5")
    with pytest.raises(UnknownName, match="Did you mean 'layer3'"):
        Trunk(backbone("resnet18"), cut="frozen", taps=["layer33"])
    with pytest.raises(BadSpecification, match="twice"):
        Trunk(backbone("resnet18"), cut="frozen", taps=["layer4", "final"])
    with pytest.raises(UnknownName, match="average"):
        Trunk(backbone("resnet18"), cut="frozen", pooling="averge")
    with pytest.raises(BadSpecification, match="image"):
        _ = Trunk(backbone("resnet18"), cut="frozen", pooling="grid").width
    with pytest.raises(BadSpecification, match="layer3, layer4"):
        Trunk(backbone("resnet18"), cut="last-1").above(torch.zeros(1), change=("layer1", lambda maps: maps))


def test_key_says_all_that_decides_what_is_stored_and_no_more(backbone: Get) -> None:
    def key(**options: object) -> str:
        return Trunk(backbone("resnet18"), **{"cut": "last-1", **options}).key  # type: ignore[arg-type]

    assert key() == key(pooling="max") == key(batch_norm="train")
    others = [key(cut="last-2"), key(cut="frozen"), key(taps=["layer2", "final"]), key(channels_last=False)]
    assert len({key(), *others}) == 5
    assert key(cut="frozen") != key(cut="frozen", pooling="max")


def test_lower_precision_never_reaches_what_is_stored(backbone: Get, pictures: Pictures) -> None:
    trunk = Trunk(backbone("resnet18"), cut="last-1")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        stored = trunk.below(pictures(2))
    assert stored[0].dtype == torch.float32
    assert torch.equal(stored[0], trunk.below(pictures(2))[0])


class TwoLayers(nn.Module):
    """Two 1x1 convolutions without a bias: 3 -> 4 -> 5 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1, bias=False), nn.Conv2d(4, 5, 1, bias=False)

    def division(self) -> Division:
        return Division(None, (("first", self.first), ("second", self.second)), None)


def test_the_cost_is_that_of_the_used_stages() -> None:
    facts = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic", "image": 8, "weights_digest": ""}
    two = Backbone(name="two", network=TwoLayers(), stages=("first", "second"), **facts)  # type: ignore[arg-type]
    whole, half = Trunk(two, cut="last-1", image=8), Trunk(two, cut="frozen", taps=["first"], image=8)
    assert whole.cost(8) == {"weights": 3 * 4 + 4 * 5, "operations": 2 * 64 * (3 * 4 + 4 * 5)}
    assert half.cost(8) == {"weights": 3 * 4, "operations": 2 * 64 * 3 * 4}


@pytest.mark.parametrize("name", [*FAMILIES, "vit_tiny_patch16_224"])
def test_the_last_map_is_what_is_pooled(name: str, backbone: Get, pictures: Pictures) -> None:
    trunk = Trunk(backbone(name), cut="frozen", normalize_taps=False, image=64)
    maps = trunk.maps(pictures(2))[-1]
    assert maps.ndim == 4
    assert torch.allclose(maps.mean((2, 3)), trunk.below(pictures(2))[0], atol=1e-5)


def test_every_call_gets_a_full_block_whatever_the_batches_of_a_loader() -> None:
    rows = torch.arange(11.0)
    seen: list[list[float]] = []

    def double(block: Tensor) -> Tensor:
        seen.append(block.tolist())
        return block * 2

    for given in (rows, iter([rows[:1], rows[1:8], rows[8:]])):
        assert torch.equal(in_blocks(double, given, size=4)[0], rows * 2)
    assert seen[:3] == seen[3:] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 10]]
    assert in_blocks(lambda rows: rows[:, :2], torch.empty(0, 5), size=4)[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tf_efficientnet_lite0", {"taps": ["blocks.3", "blocks.4", "blocks.5"], "pooling": "grid", "cut": "frozen"}),
        ("tf_efficientnet_lite0", {"taps": ["blocks.3", "blocks.5"], "pooling": "average", "cut": "last-2"}),
        ("tf_efficientnet_lite0", {"cut": "last-1"}),
        ("resnet18", {"cut": "last-1"}),
        ("convnext_atto", {"cut": "last-1"}),
        ("vit_tiny_patch16_224", {"cut": "last-1"}),
    ],
)
def test_a_rows_bits_depend_neither_on_its_place_nor_on_its_neighbours_nor_on_the_store(
    name, options, backbone, pictures
):
    trunk = Trunk(backbone(name), image=64, **options)  # type: ignore[arg-type]
    embedder = Embedder(trunk, Head(trunk.width, 32))
    images = pictures(BLOCK + 5)
    together = embedder.embed(images, from_images=True, normalize=True)
    order = torch.randperm(len(images), generator=stream(0, "order"))
    assert torch.equal(embedder.embed(images[order], from_images=True, normalize=True), together[order])
    for i in (0, BLOCK, BLOCK + 4):
        assert torch.equal(embedder.embed(images[i : i + 1], from_images=True, normalize=True)[0], together[i])
    stored = tuple(torch.from_numpy(part.contiguous().numpy().copy()) for part in embedder.stored(images))
    assert torch.equal(embedder.embed(stored, normalize=True), together)


def test_passes_count_the_rows_above_the_cut(backbone, pictures):
    trunk = Trunk(backbone("resnet18"), cut="frozen")
    embedder = Embedder(trunk, Head(trunk.width, 4))
    assert embedder.trunk.counter.rows == 0
    embedder(embedder.stored(pictures(3)))
    embedder(pictures(2))
    assert embedder.trunk.counter.rows == 5
    mixed = embedder(pictures(2), change=("features", lambda rows: rows.mean(0, keepdim=True)))
    assert mixed.shape == (1, 4)
