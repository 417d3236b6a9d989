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
    message = planned(levelfield, birds, *SMALL[:2]).error
    assert f"The dataset 'cub' in {birds} is not the official one:" in message
    assert "train: 5,864 images expected, 28 found" in message
    assert "test: 100 classes expected, 4 found" in message
    assert "4 listed images have no file:" in message
    assert "002.Bird_of_kind_2/Bird_2_0.jpg" in message
    assert "data.allow_incomplete=true" in message


def test_what_is_there_of_an_incomplete_copy_is_planned_when_it_is_allowed(levelfield: Levelfield, birds: Path) -> None:
    shutil.rmtree(birds / "images" / "002.Bird_of_kind_2")
    small = ("conditions.batch=4", "methods.triplet (D).batch=2x2", "methods.triplet (R).batch=2x2")
    printed = planned(levelfield, birds, *SMALL, *small).printed
    assert "Estimated time" in printed
    assert "the first step fails" not in printed


def test_a_truncated_photograph_is_named(levelfield: Levelfield, birds: Path) -> None:
    photo = birds / "images" / "101.Bird_of_kind_101" / "Bird_101_1.jpg"
    photo.write_bytes(photo.read_bytes()[:-200])
    message = planned(levelfield, birds, *SMALL).error
    assert "1 of 48 images of 'cub' cannot be read" in message
    assert f"{photo}: it is damaged or truncated" in message
    assert "--skip-unreadable" in message


def test_the_root_of_another_dataset_is_recognised(levelfield: Levelfield, birds: Path) -> None:
    other = Path("products") / "Stanford_Online_Products"
    other.mkdir(parents=True)
    (other / "Ebay_train.txt").write_text("image_id class_id super_class_id path\n")
    message = planned(levelfield, Path("products"), *SMALL).error
    assert "has no images.txt, which 'cub' needs. This is the dataset 'sop' (it has Ebay_train.txt)" in message


@pytest.mark.parametrize("root", ["CUB_200_2011/images", "far"])
def test_a_folder_above_or_below_the_root_names_the_root(levelfield: Levelfield, birds: Path, root: str) -> None:
    if root == "far":
        Path("far/away").mkdir(parents=True)
        birds = birds.rename(Path("far/away/CUB_200_2011"))
    message = planned(levelfield, Path(root), *SMALL).error
    assert f"{birds}: give that folder as the root" in message or f"give {birds} as the root" in message


def test_weights_of_another_network_name_their_network(levelfield: Levelfield, birds: Path) -> None:
    tensors = backbones.create("test_resnet", weights="random").network.state_dict()
    safetensors.torch.save_file(tensors, "test_resnet.safetensors")
    words = (SMALL[0], SMALL[2])
    message = planned(levelfield, birds, *words, "conditions.weights=test_resnet.safetensors").error
    assert "test_resnet.safetensors does not fit 'test_byobnet': it lacks" in message
    assert (
        "By its name it is of 'test_resnet': set backbone: test_resnet, or give weights of 'test_byobnet'." in message
    )


def test_missing_weights_are_named_as_missing_data_is(
    levelfield: Levelfield, birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every network, also where the data is there; a start without them is one message with the same file."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "nothing")
    table, several = "fehervari2019/table2", "vary={conditions.backbone: [bninception, test_resnet]}"
    file = "bn_inception-52deb4733.pth: see docs/study-file.md#weights-of-the-papers."
    without_data = levelfield("compare", table, "--dry-run", "conditions.weights.bninception=gone.pth").printed
    text = " ".join(without_data.split())
    assert "No location is given for the dataset 'cub'" in text
    assert "The weights file gone.pth does not exist. Give a local file (weights: FILE.safetensors or FILE.pth)" in text
    assert "The weights of 'resnet50.tv_in1k' are not on this machine." in text
    assert "resnet50-0676ba61.pth: see docs/study-file.md#weights-of-the-papers." in text
    words = ("--root", birds, "data.allow_incomplete=true", "claims=[]", "conditions.weights.test_resnet=random")
    with_data = levelfield("compare", table, *words, several, "--dry-run").printed
    text = " ".join(with_data.split())
    assert "because: The weights of 'bninception' are not on this machine. Give a local file" in text
    assert text.count(file) == 1
    assert "test_resnet' are not" not in text
    started = levelfield("compare", table, *words, several).error
    assert started.count("\n") == 0
    assert file in started


def test_a_study_of_two_networks_reads_a_file_for_each(levelfield: Levelfield, birds: Path) -> None:
    names = {"bninception": "bn_inception-52deb4733.pth", "test_resnet": "other.safetensors"}
    for name, file in names.items():
        tensors = backbones.create(name, weights="random").network.state_dict()
        (torch.save if file.endswith(".pth") else safetensors.torch.save_file)(tensors, file)
    words = ("--root", birds, "data.allow_incomplete=true", "claims=[]", "methods=[untrained]", "seeds=1")
    several = "vary={conditions.backbone: [bninception, test_resnet]}"
    weights = [f"conditions.weights.{name}={file}" for name, file in names.items()]
    printed = levelfield("compare", "fehervari2019/table2", *words, several, *weights, "--dry-run").printed
    assert "Estimated time" in printed
    assert all(f"backbone={name}" in " ".join(printed.split()) for name in names)
    wrong = levelfield("compare", "fehervari2019/table2", *words, several, f"conditions.weights={names['bninception']}")
    assert "does not fit 'test_resnet'" in wrong.error
    typo = levelfield(
        "compare", "fehervari2019/table2", *words, several, "conditions.weights.test_resnt=other.safetensors"
    )
    assert "Unknown backbone in conditions.weights 'test_resnt'. Did you mean 'test_resnet'?" in typo.error


def test_rows_whose_batches_hold_no_triplet_are_named_and_not_planned(levelfield: Levelfield) -> None:
    printed = levelfield("compare", "fehervari2019/fig2", "--dry-run").printed
    plan, _, rest = " ".join(printed.split()).partition("Left out, since a batch is too small to compare anything: ")
    assert rest.startswith("Triplet Semihard [batch=2], Npairs [batch=2], Margin Loss [batch=2]. ")
    assert "Margin Loss [batch=4]" in plan
    assert "Margin Loss [batch=2]" not in plan
