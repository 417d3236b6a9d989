"""Backbones by name: their weights, files of weights, and what is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from levelfield.embedder import Trunk
from levelfield.embedder.trunk import backbones
from levelfield.embedder.trunk.weights import missing
from levelfield.errors import BadInput, MissingData, UnknownName

import timm  # isort: skip


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    return dict(timm.create_model("test_resnet", num_classes=7).state_dict())


def test_random_weights_are_always_the_same_and_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second = (backbones.create("resnet18", weights="random").weights_digest for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.get_rng_state())


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


def test_what_is_not_a_plain_state_dict_is_one_message(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    checkpoint = {"epoch": 3, "optimiser": {"state": {}}, "state_dict": tensors}
    contents: dict[str, object] = {
        r"contains torch\.nn\.modules\.conv\.Conv2d, .*: torch\.save\(network\.state_dict\(\)": nn.Conv2d(3, 4, 1),
        r"torch\.load\('own\.pth', weights_only=True\)\['state_dict'\]": checkpoint,
        r"own\.pth is not a plain state dict, which has a tensor for each name\. The": {**tensors, "epoch": 3},
        r"plain state dict, .*'test_resnet' is timm/test_resnet\.r160_in1k/model\.safetensors: see docs": {},
        r"plain state dict": list(tensors.values()),
        r"removeprefix\('module\.'\)": {f"module.{name}": tensor for name, tensor in tensors.items()},
    }
    for message, content in contents.items():
        torch.save(content, tmp_path / "own.pth")
        with pytest.raises(BadInput, match=message):
            backbones.create("test_resnet", weights=tmp_path / "own.pth")


def test_unknown_names_have_a_nearest_one() -> None:
    with pytest.raises(UnknownName, match="tf_efficientnet_lite0"):
        backbones.create("tf_eficientnet_lite0")
    with pytest.raises(UnknownName, match=r"'resnet50\.tv_in1'\. Did you mean 'resnet50\.tv_in1k'"):
        backbones.describe("resnet50.tv_in1")


@pytest.mark.parametrize("file", ["own.safetensors", "own.pt"])
def test_a_file_gives_its_weights_whatever_its_classifier(file, tensors, tmp_path: Path) -> None:
    (torch.save if file.endswith(".pt") else safetensors.torch.save_file)(tensors, tmp_path / file)
    loaded = backbones.create("test_resnet", weights=tmp_path / file).network.state_dict()
    assert torch.equal(loaded["layer1.0.conv1.weight"], tensors["layer1.0.conv1.weight"])


def test_a_file_that_does_not_fit_is_refused_by_name(tensors, tmp_path: Path) -> None:
    file, lacking = tmp_path / "own.safetensors", {name: tensors[name] for name in tensors if name != "bn1.bias"}
    infinite = {**tensors, "bn1.bias": tensors["bn1.bias"] / 0}
    for message, content in (
        (r"lacks 1 of \d+ tensors, first 'bn1.bias'", lacking),
        ("wrong shape", {**lacking, "bn1.bias": torch.zeros(3)}),
        (r"it has NaN or infinite values in 1 tensors, first 'bn1\.bias'", infinite),
    ):
        safetensors.torch.save_file(content, file)
        with pytest.raises(BadInput, match=message):
            backbones.create("test_resnet", weights=file)
    file.write_text("no weights at all")
    with pytest.raises(BadInput, match=r"neither a safetensors file nor one of torch\.save"):
        backbones.create("test_resnet", weights=file)
    with pytest.raises(BadInput, match="does not exist"):
        backbones.create("test_resnet", weights=tmp_path / "missing.safetensors")


def test_conv4_is_that_of_the_literature_in_stages_and_needs_random_weights() -> None:
    backbone = backbones.create("conv4", weights="random")
    convolutions, norms = 3 * 64 * 9 + 3 * (64 * 64 * 9), 4 * 2 * 64
    assert sum(parameter.numel() for parameter in backbone.network.parameters()) == convolutions + norms
    images = torch.randn(3, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.normalize(backbone.network.forward_features(images).mean(dim=(2, 3)))
    (features,) = Trunk(backbone, cut="frozen", taps=["blocks.3"], image=28).below(images)
    torch.testing.assert_close(features, expected)
    with pytest.raises(MissingData, match="weights: random"):
        backbones.create("conv4")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_called_one(zipped: bool, tensors: dict[str, Tensor], tmp_path: Path) -> None:
    file = tmp_path / "own.pth"
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    for kept in (5, 300, len(whole) // 2, len(whole) - 20):
        file.write_bytes(whole[:kept])
        with pytest.raises(BadInput, match=r"own\.pth is damaged or truncated"):
            backbones.create("test_resnet", weights=file)


@pytest.mark.parametrize(
    "name",
    ["resnet18.a1_in1k.safetensors", "resnet18_a1_0-d63eafa0.pth", "models--timm--resnet18.a1_in1k/model.safetensors"],
)
def test_weights_of_another_recipe_are_refused(name: str, tmp_path: Path) -> None:
    file, tensors = tmp_path / name, timm.create_model("resnet18").state_dict()
    file.parent.mkdir(exist_ok=True)
    (torch.save if file.suffix == ".pth" else safetensors.torch.save_file)(tensors, file)
    refused = (
        r"'resnet18\.a1_in1k', another recipe than 'resnet18\.tv_in1k': set backbone: resnet18\.a1_in1k, .* see docs"
    )
    with pytest.raises(BadInput, match=refused):
        backbones.create("resnet18.tv_in1k", weights=file)
    assert backbones.create("resnet18.a1_in1k", weights=file).interpolation == "bicubic"


def test_weights_of_another_network_name_both_and_the_file_that_is_needed(tensors, tmp_path):
    torch.save(tensors, tmp_path / "bn_inception-52deb4733.pth")
    refused = r"of 'bninception': set backbone: bninception, .*'resnet18\.tv_in1k' is resnet18-f37072fd\.pth: see docs"
    with pytest.raises(BadInput, match=refused):
        backbones.create("resnet18.tv_in1k", weights=tmp_path / "bn_inception-52deb4733.pth")


def test_weights_in_the_cache_of_the_hub_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert "timm tries to download them" in str(missing("resnet50.tv_in1k", None))
    cached = tmp_path / "models--timm--resnet50.tv_in1k"
    (cached / "snapshots" / "abc").mkdir(parents=True)
    (cached / "snapshots" / "abc" / "model.safetensors").touch()
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    assert missing("resnet50.tv_in1k", None) is None
    assert missing("tf_efficientnet_lite0", None) is None
    assert missing("bninception", "random") is None


def test_the_documentation_describes_the_files_that_messages_name() -> None:
    text = (Path(__file__).parents[2] / "docs" / "study-file.md").read_text()
    for name in ("bninception", "resnet50.tv_in1k"):
        described = str(missing(name, "none.pth"))
        assert "docs/study-file.md#weights-of-the-papers" in described
        assert f"| `{name}` | `{described.split(' is ')[-1].split(':')[0]}` |" in text
    assert "### Weights of the papers\n" in text
