"""Vision transformers of timm by name: stages, token pooling, image sizes and gradients against timm's own forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from levelfield.embedder import Trunk, backbones
from levelfield.embedder.trunk.stages import divide
from levelfield.errors import BadSpecification
from small_transformers import SMALL, small_backbone

WITH_TOKEN = [name for name in SMALL if not name.startswith("swin")]


def images(side: int, count: int = 2) -> Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def side_for(name: str) -> int:
    """Another size than that of the pretrained weights."""
    return {14: 56, 32: 96}.get(divide(small_backbone(name).network).patch, 64)


def pooled_by_timm(name: str, network: nn.Module, tokens: Tensor) -> Tensor:
    """The token that timm pools; where timm averages (DINOv3, EVA), its own `pool` asked for the token."""
    if network.attn_pool is not None or network.global_pool == "token":
        return network.forward_head(tokens, pre_logits=True)
    return network.pool(tokens, pool_type="token")


@pytest.mark.parametrize("name", WITH_TOKEN)
@pytest.mark.parametrize("cut", ["frozen", "last-1", "tuned"])
def test_the_token_is_what_timm_pools(name: str, cut: str) -> None:
    network, side = small_backbone(name).network, side_for(name)
    trunk = Trunk(small_backbone(name), cut=cut, pooling="token", normalize_taps=False, image=side)
    with torch.no_grad():
        expected = pooled_by_timm(name, network, network.forward_features(images(side)))
        found = trunk.above(*trunk.below(images(side)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert trunk.width == 32
    assert Trunk(small_backbone(name), cut=cut, pooling="own", image=side).pooling == "token"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cut", ["frozen", "last-1", "last-2", "tuned"])
def test_stages_in_a_row_compute_timms_features(name: str, cut: str) -> None:
    network, side = small_backbone(name).network, side_for(name)
    trunk = Trunk(small_backbone(name), cut=cut, normalize_taps=False, image=side)
    with torch.no_grad():
        features = network.forward_features(images(side))
        expected = features.mean((1, 2)) if features.ndim == 4 else features[:, trunk._prefix_tokens :].mean(1)
        found = trunk.above(*trunk.below(images(side)))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    kept = {"last-1": 1, "last-2": 2}.get(cut)
    if kept:
        trained = {parameter.split(".")[1] for parameter, _ in trunk.trainable()}
        stages = {stage.replace(".", "_") for stage in small_backbone(name).stages[-kept:]}
        assert stages <= trained <= stages | {"final"}  # EVA's final norm comes after its own pooling


@pytest.mark.parametrize("name", ["vit_small_patch16_dinov3", "vit_base_patch16_siglip_224", "swinv2_tiny_window8_256"])
def test_gradients_above_the_cut_are_those_of_the_uncut_network(name: str) -> None:
    backbone, side = small_backbone(name), side_for(name)
    cut, whole = (Trunk(backbone, cut=kind, pooling="own", image=side).train() for kind in ("last-1", "tuned"))
    weights = torch.linspace(-1, 1, cut.width)
    for trunk in (cut, whole):
        (trunk.above(*trunk.below(images(side))) @ weights).sum().backward()
    gradients = dict(whole.named_parameters())
    trained = dict(cut.trainable())
    assert trained
    for key, parameter in trained.items():
        assert (parameter.grad is None) == (gradients[key].grad is None), key
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, gradients[key].grad, rtol=1e-3, atol=1e-5, msg=key)
    assert all(parameter.grad is None for _, parameter in cut.named_parameters() if not parameter.requires_grad)
    assert ("siglip" in name) == any(key.startswith("pieces.token.") for key in trained)  # its attention pooling trains


def test_positions_of_the_blocks_have_one_name_and_follow_a_copy() -> None:
    """Shared weights under two names could not be stored; a copy that used the original's would not train its own."""
    mixed = small_backbone("vit_small_patch16_rope_mixed_224")
    trunk = Trunk(mixed, cut="tuned", pooling="token", image=64)
    named = [name for name in trunk.state_dict() if "rope" in name]
    assert named
    assert all(name.startswith("pieces.entrance.") for name in named)
    before = trunk.above(images(64))
    for name, parameter in trunk.named_parameters():
        if "rope" in name:
            parameter.data.add_(1.0)
    assert not torch.allclose(before, trunk.above(images(64)), atol=1e-4)
    again = Trunk(mixed, cut="tuned", pooling="token", image=64)
    torch.testing.assert_close(again.above(images(64)), before)


def test_tokens_of_several_blocks_are_normalised_side_by_side() -> None:
    network = small_backbone("vit_small_patch14_dinov2").network
    trunk = Trunk(
        small_backbone("vit_small_patch14_dinov2"), cut="frozen", pooling="token", taps=["blocks.0", "final"], image=56
    )
    with torch.no_grad():
        first = network.blocks[0](network.norm_pre(network._pos_embed(network.patch_embed(images(56)))))
        last = network.norm(network.blocks[1](first))
    expected = torch.cat([functional.normalize(tokens[:, 0], dim=1) for tokens in (first, last)], dim=1)
    torch.testing.assert_close(trunk.below(images(56))[0], expected, rtol=1e-4, atol=1e-5)


def test_a_network_without_a_token_is_refused_or_averaged() -> None:
    resnet = backbones.create("test_resnet", weights="random")
    with pytest.raises(BadSpecification, match=r"'test_resnet' has no token.*Use average, or own"):
        Trunk(resnet, cut="frozen", pooling="token")
    own, average = (Trunk(resnet, cut="frozen", pooling=pooling) for pooling in ("own", "average"))
    assert own.key == average.key  # the same stored features
    assert own.settings == average.settings
    siglip = small_backbone("vit_base_patch16_siglip_224")
    with pytest.raises(BadSpecification, match=r"cannot read the tap blocks.0: use taps: \[final\]"):
        Trunk(siglip, cut="frozen", pooling="token", taps=["blocks.0", "final"])
