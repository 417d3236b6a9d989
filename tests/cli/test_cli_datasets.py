"""`levelfield datasets`, and `--root` of the commands that take data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from cli_room import Levelfield
from PIL import Image

from drawn_cub import draw_cub


@pytest.fixture
def birds(room: Path) -> Path:
    """Four classes of the training half, four of the test half."""
    return draw_cub(room, training=4)


def test_datasets_lists_the_official_numbers_and_pages(levelfield: Levelfield) -> None:
    printed = levelfield("datasets").printed
    for words in ("cub", "5,864 / 100", "59,551 / 11,318", "query 14,218 / 3,985", "image-net.org", "Also: csv"):
        assert words in printed


def test_check_of_an_incomplete_copy_ends_with_1_and_says_what_is_missing(levelfield: Levelfield, birds: Path) -> None:
    ended = levelfield("datasets", "check", "cub", birds)
    assert ended.code == 1
    assert "PROBLEM  images.txt: 11,788 rows expected, 32 found." in ended.out
    assert "https://www.vision.caltech.edu/datasets/cub_200_2011/" in ended.out
    content = json.loads(levelfield("datasets", "check", "cub", birds, "--json").out)
    assert content["problems"] == 7  # three lists, and the images and classes of both parts
    assert {"weight": "good", "text": "All 32 images can be read."} in content["found"]


def test_check_of_own_photos_ends_well(levelfield: Levelfield, room: Path) -> None:
    assert "'folder' can be used." in levelfield("datasets", "check", "folder", "photos").printed


def test_check_says_where_a_dataset_is_looked_for(
    levelfield: Levelfield, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    assert "No location is given for the dataset 'sop'." in levelfield("datasets", "check", "sop").error
    monkeypatch.setenv("LEVELFIELD_DATA", str(room))
    assert "searched for Stanford_Online_Products, sop" in levelfield("datasets", "check", "sop").error
    assert "Did you mean 'cub'" in levelfield("datasets", "check", "cubs").error


def test_leaks_draws_the_pairs_and_ends_with_1_for_equal_files(levelfield: Levelfield, room: Path) -> None:
    assert "No class and no file is on both sides of the split." in levelfield("datasets", "leaks", "photos").printed
    shutil.copy("photos/class 00/0.png", "photos/class 07/9.png")
    ended = levelfield("datasets", "leaks", "photos", "--out", "sheet.png")
    assert ended.code == 1
    assert "LEAK: 1 of 17 test images (byte for byte) is on both sides of the split." in ended.out
    assert "1 of 1 pair is drawn: sheet.png" in ended.out
    with Image.open("sheet.png") as sheet:
        assert sheet.format == "PNG"
    content = json.loads(levelfield("datasets", "leaks", "photos", "--json").out)
    assert content["identical"][0]["test"] == "photos/class 07/9.png"
    assert "has no root" in levelfield("datasets", "leaks", "photos", "elsewhere").error


def test_leaks_of_a_benchmark_by_its_official_split(levelfield: Levelfield, birds: Path) -> None:
    assert "allow_incomplete" in levelfield("datasets", "leaks", "cub", birds).error
    printed = levelfield("datasets", "leaks", "cub", birds, "--allow-incomplete", "--radius", "0").printed
    assert "No class and no file is on both sides of the split." in printed


def test_root_names_the_place_of_the_data_for_a_study(levelfield: Levelfield, room: Path, birds: Path) -> None:
    study = yaml.safe_load(Path("small.yaml").read_text()) | {"data": {"name": "cub", "allow_incomplete": True}}
    Path("birds.yaml").write_text(yaml.safe_dump(study | {"methods": ["lda"], "seeds": 1}))
    assert "No location is given for the dataset 'cub'." in levelfield("compare", "birds.yaml").error
    assert "lda" in levelfield("compare", "birds.yaml", "--root", birds).printed
    stored = yaml.safe_load(Path("runs/birds/study.yaml").read_text())
    assert stored["data"]["root"] == str(birds)
    words = ("small.yaml", "data=cub", "data.allow_incomplete=true", "methods=[lda]", "seeds=1", "--root", birds)
    assert "lda" in levelfield("compare", *words, "--dry-run").printed  # also where an override names the data
    assert "Trained 'lda'" in levelfield("train", *words, "--method", "lda").printed


def test_init_and_compare_say_that_a_copy_is_not_the_official_one(levelfield: Levelfield, birds: Path) -> None:
    assert "not the official one" in levelfield("init", "cub", "--root", birds).error
    assert "not the official one" in levelfield("compare", "--data", "cub", "--root", birds).error
    words = ("--data", "cub", "--root", birds, "data.allow_incomplete=true", "methods=[lda]", "--dry-run")
    assert "tests on 4 classes (16 images)" in levelfield("compare", *words).printed
