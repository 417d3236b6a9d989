"""`levelfield compare` and `levelfield report` report leaks across the split of a user's data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import Levelfield
from PIL import Image

CLEAN = "No class and no file is on both sides of the split."


def facts(folder: str | Path = "runs/small") -> dict[str, Any]:
    [content] = json.loads((Path(folder) / "leaderboard.json").read_text())["facts"]["leaks"]
    return content


@pytest.fixture
def leaky(room: Path) -> Path:
    """A test image that is a training image, and one that was saved again as another kind of file."""
    study = yaml.safe_load(Path("small.yaml").read_text())
    Path("small.yaml").write_text(yaml.safe_dump(study | {"methods": ["lda"], "seeds": 1}))
    shutil.copy("photos/class 00/0.png", "photos/class 07/8.png")
    with Image.open("photos/class 01/1.png") as image:
        image.save("photos/class 06/9.bmp")
    return room


def test_compare_and_report_say_that_nothing_crosses_the_split(levelfield: Levelfield, compared: Path) -> None:
    before = facts()
    assert before["text"] == CLEAN
    assert (before["classes"], before["identical"], before["near"], before["picture"]) == (0, 0, None, None)
    assert (before["train_images"], before["test_images"]) == (16, 16)
    assert CLEAN in Path("runs/small/leaderboard.md").read_text()
    shutil.rmtree("photos")  # known from before: a report needs no images
    assert CLEAN in levelfield("report", "runs/small").printed
    assert facts() == before


def test_without_images_a_report_says_that_nobody_knows_and_a_search_is_refused(
    levelfield: Levelfield, room: Path
) -> None:
    shutil.move("photos", "only here")  # a run searches for its images in the folders above it, too
    assert levelfield("-q", "compare", "small.yaml", "methods=[lda]", "data=only here").code == 0
    shutil.move("only here", "elsewhere")
    assert str(room / "only here") in levelfield("report", "runs/small", "--leaks").error
    assert "best first" in levelfield("report", "runs/small", "--leaks", "--root", "elsewhere").printed
    Path("runs/small/leaks.json").write_text("{ damaged")
    assert "Leaks across the split are unknown." in levelfield("report", "runs/small").printed
    assert "only here" in facts()["text"]


def test_compare_tells_of_a_file_on_both_sides(levelfield: Levelfield, leaky: Path) -> None:
    ended = levelfield("compare", "small.yaml")
    printed = ended.printed
    assert "checking 34 images (first time only)" in ended.err
    assert "LEAK: 1 of 18 test images (byte for byte) is on both sides of the split." in printed
    [content] = json.loads(Path("runs/small/leaks.json").read_text())["test_sets"]
    [pair] = content["identical"]
    assert (pair["train"], pair["test"]) == ("photos/class 00/0.png", "photos/class 07/8.png")
    assert content["near"] is None
    assert not Path("runs/small/leaks.png").exists()


def test_report_leaks_draws_images_that_look_alike_and_remembers_them(levelfield: Levelfield, leaky: Path) -> None:
    levelfield("compare", "small.yaml")
    printed = " ".join(levelfield("report", "runs/small", "--leaks").printed.split())
    assert "1 test image looks like a training image. See leaks.png." in printed
    assert "runs/small/leaks.png, runs/small/leaks.json" in printed
    with Image.open("runs/small/leaks.png") as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 2 * sheet.height  # two pairs side by side
    [content] = json.loads(Path("runs/small/leaks.json").read_text())["test_sets"]
    assert [pair["test"] for pair in content["near"]] == ["photos/class 06/9.bmp"]
    assert (facts()["identical"], facts()["near"], facts()["picture"]) == (1, 1, "leaks.png")
    [link] = [line for line in Path("runs/small/leaderboard.md").read_text().splitlines() if "](leaks.png)" in line]
    assert "training image left" in link

    assert "See leaks.png." in levelfield("report", "runs/small").printed  # and trains nothing again:
    assert "See leaks.png." in levelfield("compare", "small.yaml").printed
    levelfield("report", "runs/small", "--out", "elsewhere")
    assert "](../runs/small/leaks.png)" in Path("elsewhere/leaderboard.md").read_text()

    Path("photos/class 07/8.png").unlink()
    Path("photos/class 06/9.bmp").unlink()
    assert CLEAN in levelfield("compare", "small.yaml").printed  # other images: what was found does not hold
    assert not Path("runs/small/leaks.png").exists()


def test_no_file_that_leaks_json_names_is_deleted(compared: Path, levelfield: Levelfield) -> None:
    study, precious = compared / "runs" / "small", compared / "precious.txt"
    precious.write_text("mine")
    kept = [precious, study / "study.yaml", study / "photo.png"]
    kept[-1].write_bytes(b"picture")
    levelfield("report", study, "--leaks")
    for name in ("../../precious.txt", str(precious), "study.yaml", "photo.png"):
        content = json.loads((study / "leaks.json").read_text())
        content["test_sets"][0]["picture"] = name
        (study / "leaks.json").write_text(json.dumps(content))
        levelfield("report", study, "--leaks")
        assert all(path.exists() for path in kept)
