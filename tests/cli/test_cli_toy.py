"""`levelfield toy`: a table that fits the terminal, and a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_room import Levelfield
from PIL import Image

from levelfield.papers import toy


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "STEPS", 2)


def test_it_prints_every_loss_and_draws_them(levelfield: Levelfield, tmp_path: Path) -> None:
    said = levelfield("toy", "--seeds", "2", "--out", str(tmp_path / "toy.png"), "--switch", "0.6").printed
    assert [said.count(words) for words in ("contrastive", "switch 0.001", "switch 0.6", "no pull")] == [2] * 4
    assert all(name in said for name in ("rho", "arc", "r1@0.02", "train r1", "diagonal", "vertical"))
    assert "…" not in said
    with Image.open(tmp_path / "toy.png") as picture:
        assert picture.width > 1000


def test_one_form_can_be_chosen(levelfield: Levelfield, tmp_path: Path) -> None:
    said = levelfield("toy", "--form", "vertical", "--seeds", "1", "--out", str(tmp_path / "v.svg")).printed
    assert "diagonal:" not in said
    assert (tmp_path / "v.svg").read_text().count("<svg") == 1


def test_a_file_that_is_no_figure_is_refused_before_anything_trains(levelfield: Levelfield, tmp_path: Path) -> None:
    assert ".png, .pdf or .svg" in levelfield("toy", "--out", str(tmp_path / "toy.txt")).error
    assert levelfield("toy", "--switch", "1.5").code == 2
