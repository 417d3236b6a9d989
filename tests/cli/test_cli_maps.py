"""`levelfield maps`."""

from __future__ import annotations

from pathlib import Path

from cli_room import Levelfield
from PIL import Image


def test_rows_are_drawn_for_each_run(levelfield: Levelfield, compared: Path, trained: Path) -> None:
    other = next((compared / "runs" / "small" / "contrastive").glob("seed1-*"))
    photo = next((compared / "photos").rglob("*.png"))
    sizes = []
    for runs in ([trained], [trained, other]):
        levelfield("maps", *runs, "--image", photo, "--out", "maps.png")
        with Image.open(compared / "maps.png") as drawn:
            sizes.append(drawn.size)
    assert sizes[0][1] < sizes[1][1]


def test_a_picture_needs_a_name_of_one(levelfield: Levelfield, compared: Path, trained: Path) -> None:
    photo = next((compared / "photos").rglob("*.png"))
    assert "the file name must end with" in levelfield("maps", trained, "--image", photo, "--out", "maps.txt").error
    assert "contains no trained model" in levelfield("maps", "photos", "--image", photo, "--out", "maps.png").error
