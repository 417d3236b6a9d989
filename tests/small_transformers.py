"""Small forms of timm's vision transformers: the networks of these names with few blocks and channels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from levelfield.embedder import Backbone, backbones

import timm  # isort: skip

_TOKENS = {"embed_dim": 32, "depth": 2, "num_heads": 2}
_WINDOWS = {"embed_dim": 8, "depths": (1, 1, 2, 1), "num_heads": (1, 1, 2, 2)}
SMALL: dict[str, dict[str, Any]] = {
    "vit_small_patch14_dinov2": _TOKENS,
    "vit_small_patch14_reg4_dinov2": _TOKENS,
    "vit_small_patch16_dinov3": _TOKENS,
    "vit_base_patch16_siglip_224": _TOKENS,
    "vit_base_patch32_clip_224": _TOKENS,
    "eva02_tiny_patch14_224": _TOKENS,
    "vit_small_patch16_rope_mixed_224": _TOKENS,
    "swin_tiny_patch4_window7_224": _WINDOWS,
    "swinv2_tiny_window8_256": _WINDOWS,
}
_made: dict[str, Backbone] = {}
_create = timm.create_model


def shrunk(name: str, **options: Any) -> nn.Module:
    """timm's `create_model`, small; its weights are not zero where timm starts at zero."""
    network: nn.Module = _create(name, **options, **SMALL[name])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return network


def small_backbone(name: str) -> Backbone:
    """The backbone in its small form with random weights, made once."""
    if name not in _made:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backbones.timm, "create_model", shrunk)
            _made[name] = backbones.create(name, weights="random")
    return _made[name]
