"""Files of torch.save as weights, and what is refused: another network or recipe, no state dict, a truncated file."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from levelfield.embedder.trunk import backbones
from levelfield.embedder.trunk.weights import missing
from levelfield.errors import BadInput, UnknownName

import timm  # isort: skip


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    return dict(timm.create_model("test_resnet", num_classes=7).state_dict())


def test_a_state_dict_of_torch_save_gives_its_weights(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    torch.save(tensors, tmp_path / "own.pt")
    loaded = backbones.create("test_resnet", weights=tmp_path / "own.pt").network.state_dict()
    assert torch.equal(loaded["layer1.0.conv1.weight"], tensors["layer1.0.conv1.weight"])


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


def test_weights_that_are_not_finite_are_refused(tensors: dict[str, Tensor], tmp_path: Path) -> None:
    safetensors.torch.save_file({**tensors, "bn1.bias": tensors["bn1.bias"] / 0}, tmp_path / "own.safetensors")
    with pytest.raises(BadInput, match=r"it has NaN or infinite values in 1 tensors, first 'bn1\.bias'"):
        backbones.create("test_resnet", weights=tmp_path / "own.safetensors")


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


def test_weights_of_another_network_name_both_and_the_file_that_is_needed(
    tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save(tensors, tmp_path / "bn_inception-52deb4733.pth")
    refused = r"of 'bninception': set backbone: bninception, .*'resnet18\.tv_in1k' is resnet18-f37072fd\.pth: see docs"
    with pytest.raises(BadInput, match=refused):
        backbones.create("resnet18.tv_in1k", weights=tmp_path / "bn_inception-52deb4733.pth")


def test_an_unknown_pretraining_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"'resnet50\.tv_in1'\. Did you mean 'resnet50\.tv_in1k'"):
        backbones.describe("resnet50.tv_in1")


def test_the_first_weights_of_torchvision_have_their_own_preprocessing() -> None:
    facts = backbones.describe("resnet50.tv_in1k")
    assert (facts.interpolation, facts.mean, facts.std) == ("bilinear", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


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
