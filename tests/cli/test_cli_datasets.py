"""`levelfield datasets`, and `--root` of the commands that take data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from cli_room import Levelfield
from PIL import Image


@pytest.fixture
def birds(room: Path) -> Path:
    """The room's photos in CUB's layout: four classes of the training half, four of the test half."""
    root = room / "CUB_200_2011"
    rows, labels, classes = [], [], []
    for number, folder in enumerate(sorted((room / "photos").iterdir())):
        class_id = number + 1 if number < 4 else 97 + number
        name = f"{class_id:03d}.Bird_{number}"
        classes.append(f"{class_id} {name}")
        (root / "images" / name).mkdir(parents=True)
        for photo in sorted(folder.iterdir()):
            with Image.open(photo) as image:
                image.save(root / "images" / name / f"{photo.stem}.jpg")
            rows.append(f"{len(rows) + 1} {name}/{photo.stem}.jpg")
            labels.append(f"{len(rows)} {class_id}")
    for file, lines in (("images", rows), ("image_class_labels", labels), ("classes", classes)):
        (root / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return root


def test_datasets_lists_the_official_numbers_and_pages(levelfield: Levelfield) -> None:
    said = levelfield("datasets").printed
    for words in ("cub", "5,864 / 100", "59,551 / 11,318", "query 14,218 / 3,985", "image-net.org", "Also: csv"):
        assert words in said


def test_datasets_help_has_examples(levelfield: Levelfield) -> None:
    assert "Example: levelfield datasets" in levelfield("datasets", "--help").printed
    for verb in ("check", "leaks"):
        assert f"Example: levelfield datasets {verb}" in levelfield("datasets", verb, "--help").printed


def test_check_of_an_incomplete_copy_ends_with_1_and_says_what_is_missing(levelfield: Levelfield, birds: Path) -> None:
    ended = levelfield("datasets", "check", "cub", birds)
    assert ended.code == 1
    assert "PROBLEM  images.txt: 11,788 rows expected, 32 found." in ended.out
    assert "https://www.vision.caltech.edu/datasets/cub_200_2011/" in ended.out
    told = json.loads(levelfield("datasets", "check", "cub", birds, "--json").out)
    assert told["problems"] == 7  # three lists, and the images and classes of both parts
    assert {"weight": "good", "text": "All 32 images can be read."} in told["found"]


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
    told = json.loads(levelfield("datasets", "leaks", "photos", "--json").out)
    assert told["identical"][0]["test"] == "photos/class 07/9.png"
    assert "has no root" in levelfield("datasets", "leaks", "photos", "elsewhere").error


def test_leaks_of_a_benchmark_by_its_official_split(levelfield: Levelfield, birds: Path) -> None:
    assert "allow_incomplete" in levelfield("datasets", "leaks", "cub", birds).error
    said = levelfield("datasets", "leaks", "cub", birds, "--allow-incomplete", "--radius", "0").printed
    assert "No class and no file is on both sides of the split." in said


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
