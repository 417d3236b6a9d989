"""The benchmark of training in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import photographs
from PIL import Image

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "training.py"
SMALL = (
    "conditions.backbone=test_efficientnet",  # timm's smallest
    "conditions.taps=[blocks.2, blocks.3, blocks.4]",
    "conditions.weights=random",
    "conditions.image=32",
    "conditions.batch=4x2",
    "conditions.dim=4",
    "conditions.steps=20",
)


@pytest.fixture(scope="module")
def measured(script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a quick run on a few coloured squares prints and writes."""
    folder = tmp_path_factory.mktemp("squares")
    draw = np.random.default_rng(0)
    for number in range(64):
        place = folder / "photos" / f"class{number // 4:02d}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(place / f"{number}.png")
    settings = [f"data={folder / 'photos'}", *SMALL]
    options = [word for setting in settings for word in ("--set", setting)]
    parts = [word for part in ("loop", "cached", "cache", "photos") for word in ("--only", part)]
    printed = script(
        "training",
        "--quick",
        *parts,
        *options,
        "--images",
        str(folder / "photos"),
        "--out",
        str(folder / "training.json"),
        columns=120,
        LEVELFIELD_CACHE=str(folder / "cache"),
    )
    return printed, json.loads((folder / "training.json").read_text(encoding="utf-8"))


def test_the_table_names_every_peer_and_target(measured: tuple[str, dict[str, Any]]) -> None:
    printed, _ = measured
    for text in ("bare PyTorch loop", "its trainable part", "cache: false", "waiting for data"):
        assert text in printed
    for target in ("<= 1.050x", "<= 1.150x", ">= 4.00x", ">= 1.70x", "<= 5.0%"):
        assert target in printed


def test_every_part_is_kept_with_its_facts(measured: tuple[str, dict[str, Any]]) -> None:
    _, saved = measured
    found = [(figure["part"], figure["what"]) for figure in saved["figures"]]
    assert [part for part, _ in found] == ["loop"] * 2 + ["cached"] * 6 + ["cache"] * 2 + ["photos"] * 3
    assert {"step, frozen", "step, last-1", "epoch, last-2"} <= {what for _, what in found}
    for figure in saved["figures"]:
        assert np.isfinite(figure["value"])
        assert figure["value"] > 0
        assert figure["machine"]["threads"] == 1
        difference = figure["value"] - figure["target"]
        assert figure["reached"] == (difference <= 0 if figure["at_most"] else difference >= 0)


def test_photographs_are_measured_against_maps_and_decoded_tensors(measured: tuple[str, dict[str, Any]]) -> None:
    printed, saved = measured
    assert "images/s" in printed
    assert "of the machine's matrix product" in " ".join(printed.split())
    waiting, stage, decoding = (figure for figure in saved["figures"] if figure["part"] == "photos")
    assert (waiting["unit"], waiting["target"]) == ("%", 0.05)
    assert (stage["peer"], stage["target"]) == ("bare loop over the same maps", 1.1)
    assert (decoding["peer"], decoding["target"]) == ("bare loop over decoded tensors", 1.25)
    for figure in (stage, decoding):
        assert all(figure["facts"][key] > 0 for key in ("images_per_second", "gflops_per_second"))
        assert figure["facts"]["share_of_matrix_product"] > 0
    assert 0 <= decoding["facts"]["waiting"] <= 1


def test_photographs_are_drawn_where_none_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "DRAWN", (2, 1))
    files = sorted(photographs.draw_photographs(tmp_path).rglob("*.jpg"))
    assert [file.parent.name for file in files] == ["class00", "class01"]
    with Image.open(files[0]) as image:
        assert (min(image.size), image.format) == (photographs.SIDE, "JPEG")
