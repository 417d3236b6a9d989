"""`levelfield compare --data FOLDER --backbones a,b`: the rows of every network, the answer, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_room import Levelfield, make_photos

from levelfield.embedder import backbones as networks

SMALL = ("conditions.weights=random", "conditions.image=32", "conditions.steps=2", "seeds=1", "--no-page")


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_photos(tmp_path / "photos", classes=8)


def test_two_networks_end_with_the_question_whether_fine_tuning_pays(levelfield: Levelfield, photos: Path) -> None:
    printed = " ".join(
        levelfield("compare", "--data", "photos", "--backbones", "test_resnet,test_vit", *SMALL).printed.split()
    )
    assert "Does fine-tuning beat the frozen network? With test_" in printed
    assert "Over all networks: " in printed
    assert "MFLOP: of the network for one image" in printed
    table = Path("runs/photos/leaderboard.csv").read_text(encoding="utf-8")
    assert "last stage [backbone=test_vit]" in table
    assert len(table.splitlines()) == 1 + 2 * 5
    assert (Path("runs/photos") / "cost.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--backbones", "resnet18"), "--backbones needs photos: --data FOLDER"),
        (("demo", "--backbones", "resnet18"), "without a study"),
        (("--data", "photos", "--backbones", "resnet_18"), "Unknown backbone 'resnet_18'. Did you mean 'resnet18'?"),
        (("--data", "photos", "--backbones", ","), "--backbones is empty"),
        (("--data", "photos", "--backbones", "resnet18,resnet18"), "names 'resnet18' twice"),
        (("--data", "photos", "--backbones", "resnet18", "--trials", "2"), "leave --trials and --time out"),
        (("--data", "photos", "--backbones", "resnet18", "conditions.backbone=resnet34"), "already names the networks"),
        (("--data", "photos", "--backbones", "test_resnet,regnetx_002", *SMALL), "Or leave 'regnetx_002' out of"),
    ],
)
def test_what_cannot_be_compared_is_one_message(
    words: tuple[str, ...], message: str, levelfield: Levelfield, photos: Path
) -> None:
    assert message in " ".join(levelfield("compare", *words).error.split())
    assert not Path("runs").exists()


def test_weights_that_cannot_be_loaded_name_the_network_and_the_ways_out(
    levelfield: Levelfield, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = networks.timm.create_model

    def unreachable(name: str, *, pretrained: bool = False, **options: object) -> object:
        if pretrained:
            raise OSError("no connection")
        return create(name, **options)

    monkeypatch.setattr(networks.timm, "create_model", unreachable)
    message = levelfield("compare", "--data", "photos", "--backbones", "tf_efficientnet_lite0,test_vit").error
    assert "pretrained weights of 'test_vit'" in " ".join(message.split())
    assert "weights: FILE.safetensors" in " ".join(message.split())
