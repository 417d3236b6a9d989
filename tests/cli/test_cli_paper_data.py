"""A paper's table with data or weights that do not fit: one message that says what came, what is needed, what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from cli_room import Ended, Levelfield

from drawn_cub import draw_cub
from levelfield.embedder.trunk import backbones

TABLE = "lim2022/table5"
SMALL = ("conditions.backbone=test_byobnet", "conditions.weights=random", "data.allow_incomplete=true")


@pytest.fixture
def birds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    return draw_cub(tmp_path)


def planned(levelfield: Levelfield, root: Path, *words: str) -> Ended:
    return levelfield("compare", TABLE, "--root", root, *words, "--dry-run")


def test_an_incomplete_copy_is_counted_and_its_missing_images_are_named(levelfield: Levelfield, birds: Path) -> None:
    shutil.rmtree(birds / "images" / "002.Bird_of_kind_2")
    said = planned(levelfield, birds, *SMALL[:2]).error
    assert f"The dataset 'cub' in {birds} is not the official one:" in said
    assert "train: 5,864 images expected, 28 found" in said
    assert "test: 100 classes expected, 4 found" in said
    assert "4 listed images have no file:" in said
    assert "002.Bird_of_kind_2/Bird_2_0.jpg" in said
    assert "data.allow_incomplete=true" in said


def test_what_is_there_of_an_incomplete_copy_is_planned_when_it_is_allowed(levelfield: Levelfield, birds: Path) -> None:
    shutil.rmtree(birds / "images" / "002.Bird_of_kind_2")
    small = ("conditions.batch=4", "methods.triplet (D).batch=2x2", "methods.triplet (R).batch=2x2")
    said = planned(levelfield, birds, *SMALL, *small).printed
    assert "Estimated time" in said
    assert "the first step fails" not in said


def test_a_truncated_photograph_is_named(levelfield: Levelfield, birds: Path) -> None:
    photo = birds / "images" / "101.Bird_of_kind_101" / "Bird_101_1.jpg"
    photo.write_bytes(photo.read_bytes()[:-200])
    said = planned(levelfield, birds, *SMALL).error
    assert "1 of 48 images of 'cub' cannot be read" in said
    assert f"{photo}: it is damaged or truncated" in said
    assert "--skip-unreadable" in said


def test_the_root_of_another_dataset_is_recognised(levelfield: Levelfield, birds: Path) -> None:
    other = Path("products") / "Stanford_Online_Products"
    other.mkdir(parents=True)
    (other / "Ebay_train.txt").write_text("image_id class_id super_class_id path\n")
    said = planned(levelfield, Path("products"), *SMALL).error
    assert "has no images.txt, which 'cub' needs. This is the dataset 'sop' (it has Ebay_train.txt)" in said


@pytest.mark.parametrize("given", ["CUB_200_2011/images", "far"])
def test_a_folder_above_or_below_the_root_names_the_root(levelfield: Levelfield, birds: Path, given: str) -> None:
    if given == "far":
        Path("far/away").mkdir(parents=True)
        birds = birds.rename(Path("far/away/CUB_200_2011"))
    said = planned(levelfield, Path(given), *SMALL).error
    assert f"{birds}: give that folder as the root" in said or f"give {birds} as the root" in said


def test_weights_of_another_network_name_their_network(levelfield: Levelfield, birds: Path) -> None:
    tensors = backbones.create("test_resnet", weights="random").network.state_dict()
    safetensors.torch.save_file(tensors, "test_resnet.safetensors")
    torch.save(tensors, "test_resnet.pth")
    words = (SMALL[0], SMALL[2])
    said = planned(levelfield, birds, *words, "conditions.weights=test_resnet.safetensors").error
    assert "test_resnet.safetensors does not fit 'test_byobnet': it lacks" in said
    assert "By its name it is of 'test_resnet': set backbone: test_resnet, or give weights of 'test_byobnet'." in said
    said = planned(levelfield, birds, *words, "conditions.weights=test_resnet.pth").error
    assert "test_resnet.pth was written by torch.save" in said
    assert "save_file(torch.load('test_resnet.pth', weights_only=True), 'test_resnet.safetensors')" in said
