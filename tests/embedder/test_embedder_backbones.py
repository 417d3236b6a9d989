from __future__ import annotations

import logging
from pathlib import Path

import pytest
import safetensors.torch
import torch

from levelfield.embedder import Trunk
from levelfield.embedder.trunk import backbones
from levelfield.errors import BadInput, MissingData, UnknownName

import timm  # isort: skip


def test_lite0_expects_images_as_timm_says() -> None:
    lite0 = backbones.create("tf_efficientnet_lite0")
    assert (lite0.mean, lite0.std, lite0.interpolation) == ((0.5,) * 3, (0.5,) * 3, "bicubic")
    assert lite0.stages == tuple(f"blocks.{i}" for i in range(7))
    assert not lite0.network.training
    assert lite0.weights_digest == backbones.create("tf_efficientnet_lite0").weights_digest


def test_random_weights_are_always_the_same_and_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second = (backbones.create("resnet18", weights="random").weights_digest for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_backbone_names_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="tf_efficientnet_lite0"):
        backbones.create("tf_eficientnet_lite0")


def test_a_file_gives_its_weights_whatever_its_classifier(tmp_path: Path) -> None:
    network = timm.create_model("mobilenetv3_small_050", num_classes=7)
    safetensors.torch.save_file(network.state_dict(), tmp_path / "own.safetensors")
    loaded = backbones.create("mobilenetv3_small_050", weights=tmp_path / "own.safetensors").network
    assert torch.equal(loaded.state_dict()["conv_stem.weight"], network.state_dict()["conv_stem.weight"])


def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    tensors = timm.create_model("mobilenetv3_small_050").state_dict()
    del tensors["bn1.weight"]
    safetensors.torch.save_file(tensors, tmp_path / "lacking.safetensors")
    (tmp_path / "text.safetensors").write_text("no weights at all")
    with pytest.raises(BadInput, match=r"lacks 1 of 242 tensors, first 'bn1.weight'"):
        backbones.create("mobilenetv3_small_050", weights=tmp_path / "lacking.safetensors")
    with pytest.raises(BadInput, match=r"neither a safetensors file nor one of torch\.save"):
        backbones.create("mobilenetv3_small_050", weights=tmp_path / "text.safetensors")
    with pytest.raises(BadInput, match="does not exist"):
        backbones.create("mobilenetv3_small_050", weights=tmp_path / "missing.safetensors")
    safetensors.torch.save_file({**tensors, "bn1.weight": torch.zeros(3)}, tmp_path / "shape.safetensors")
    with pytest.raises(BadInput, match="wrong shape"):
        backbones.create("mobilenetv3_small_050", weights=tmp_path / "shape.safetensors")


def test_asking_the_hub_in_vain_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    client = logging.getLogger("huggingface_hub.attempts")

    def unreachable(*_: object, **__: object) -> None:
        for attempt in range(5):
            client.warning(f"Retrying in 1s [Retry {attempt}/5].")
        raise OSError("no connection.")

    monkeypatch.setattr(backbones.timm, "create_model", unreachable)
    with pytest.raises(MissingData, match=r"weights of 'resnet50': no connection\. Give a local file"):
        backbones.create("resnet50")
    assert [record.name for record in caplog.records] == ["levelfield"]
    client.warning("heard again")
    assert "heard again" in caplog.text


def test_conv4_has_the_parameters_of_the_literature_and_needs_random_weights() -> None:
    network = backbones.create("conv4", weights="random").network
    convolutions, norms = 3 * 64 * 9 + 3 * (64 * 64 * 9), 4 * 2 * 64
    assert sum(parameter.numel() for parameter in network.parameters()) == convolutions + norms
    with pytest.raises(MissingData, match="weights: random"):
        backbones.create("conv4")


def test_the_stages_of_conv4_in_a_row_are_the_network() -> None:
    backbone = backbones.create("conv4", weights="random")
    images = torch.randn(3, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.normalize(backbone.network.forward_features(images).mean(dim=(2, 3)))
    (features,) = Trunk(backbone, cut="frozen", taps=["blocks.3"], image=28).below(images)
    torch.testing.assert_close(features, expected)


def test_describe_lists_the_stages_that_cut_and_taps_count() -> None:
    assert backbones.describe("convnext_atto").stages == ("stages.0", "stages.1", "stages.2", "stages.3")
    assert "resnet18" in backbones.names()
