"""Small networks, created once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from levelfield.embedder import Backbone
from levelfield.embedder.trunk import backbones
from levelfield.randomness import stream

_made: dict[str, Backbone] = {}


def _random_statistics(backbone: Backbone) -> Backbone:
    """A fresh network's BatchNorm does nothing; with statistics of its own it must be carried along rightly.

    A copy, since `create` may give the same network to others: tests/studies keeps what it gave.
    """
    generator = stream(0, "statistics")
    network = copy.deepcopy(backbone.network)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.copy_(torch.randn(module.running_mean.shape, generator=generator) * 0.1)
            module.running_var.copy_(torch.rand(module.running_var.shape, generator=generator) + 0.5)
    return replace(backbone, network=network, weights_digest=backbones.digest(network.state_dict()))


@pytest.fixture
def backbone() -> Callable[[str], Backbone]:
    """A backbone with random weights by name, made once per session. Trunks copy it."""

    def get(name: str) -> Backbone:
        if name not in _made:
            _made[name] = _random_statistics(backbones.create(name, weights="random"))
        return _made[name]

    return get


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of 19 noisy images: a block and three more."""
    draw, folder = stream(0, "photos"), tmp_path_factory.mktemp("photos")
    paths = [folder / f"{number}.png" for number in range(19)]
    for path in paths:
        Image.fromarray(torch.randint(256, (70, 80, 3), generator=draw, dtype=torch.uint8).numpy()).save(path)
    return paths


@pytest.fixture
def pictures() -> Callable[..., Tensor]:
    def make(count: int, side: int = 64) -> Tensor:
        return torch.randn(count, 3, side, side, generator=stream(0, "pictures", side))

    return make
