"""`levelfield corrupt` and `levelfield corruptions`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_room import Levelfield
from PIL import Image

from levelfield.studies.runs.folder.files import read_training, write_training


def test_a_run_is_measured_under_each_corruption(levelfield: Levelfield, trained: Path) -> None:
    printed = levelfield("corrupt", trained, "--only", "jpeg,rotation").printed
    for text in ("clean", "jpeg", "rotation", "mean drop", "recall@1", "map@r"):
        assert text in printed
    files = {path.name for path in (trained / "corrupted").iterdir()}
    assert files == {"jpeg.json", "jpeg.npy", "rotation.json", "rotation.npy"}


def test_json_holds_values_drops_and_signatures(levelfield: Levelfield, trained: Path) -> None:
    content = json.loads(levelfield("corrupt", trained, "--metrics", "recall@1", "--json").printed)
    assert len(content["corrupted"]) == 9
    drops = [entry["recall@1"]["drop"] for entry in content["corrupted"].values()]
    assert content["mean_drop"]["recall@1"] == pytest.approx(np.mean(drops))
    entry = content["corrupted"]["jpeg"]["recall@1"]
    assert entry["drop"] == pytest.approx(content["clean"]["recall@1"] - entry["value"])
    assert "recall@1" in content["signatures"]["recall@1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "rotatio"], "Did you mean 'rotation'"),
        (["--only", "jpeg,jpeg"], "duplicate name"),
        (["--distance", "cosine,euclidean"], "Unknown distance 'cosine,euclidean'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], message: str, levelfield: Levelfield, trained: Path
) -> None:
    assert message in levelfield("corrupt", trained, *arguments).error


def spoil(model: Path) -> None:
    """A model that cannot be loaded, of a run that takes it for its own: otherwise `compare` would make it again."""
    model.write_bytes(b"")
    write_training(model.parent, read_training(model.parent))


@pytest.mark.parametrize("broken", [1, 5], ids=["one run", "every run"])
def test_runs_that_cannot_be_asked_cost_the_drops_and_not_the_leaderboard(
    broken: int, levelfield: Levelfield, compared: Path
) -> None:
    """The clean figures are there, and so is their leaderboard; what is missing is named, and the command fails."""
    for model in sorted(Path("runs/small").rglob("model.safetensors"))[:broken]:
        spoil(model)
    (compared / "runs/small/leaderboard.csv").unlink()
    ended = levelfield("compare", "small.yaml", "corruptions=[jpeg]")
    assert "best first by recall@1" in ended.out
    assert "Corrupted test images: drop in recall@1" in ended.out
    assert (compared / "runs/small/robustness.csv").exists()
    assert (compared / "runs/small/leaderboard.csv").exists()
    assert "Missing: contrastive, seed" not in ended.out
    assert "Missing: contrastive: " in ended.out
    assert f"{broken} of 5 runs could not be evaluated on corrupted images: " in ended.error
    assert "contrastive, seed 0" in ended.error
    assert "did not finish" not in ended.error


def test_a_trained_run_that_cannot_be_corrupted_is_named_all_the_same(levelfield: Levelfield, compared: Path) -> None:
    for model in Path("runs/small").rglob("model.safetensors"):
        spoil(model)
    ended = levelfield("train", "small.yaml", "corruptions=[jpeg]", "--method", "contrastive")
    assert "Trained 'contrastive'" in ended.out
    assert "The run could not be evaluated on corrupted images" in ended.error


def test_a_sheet_shows_one_image_under_all(levelfield: Levelfield, tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    levelfield("corruptions", tmp_path / "a.png", "--out", tmp_path / "sheet.png", "--side", "32")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > sheet.height
    assert "file name must end with" in levelfield("corruptions", tmp_path / "a.png", "--out", tmp_path / "s.txt").error
    assert "does not exist" in levelfield("corruptions", tmp_path / "b.png", "--out", tmp_path / "s.png").error
