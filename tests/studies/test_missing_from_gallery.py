"""A query whose class has no image in the gallery is a miss in every score of a run.

The photo of every other query is also in the gallery, so that any network finds it: six of seven queries are found.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_world import board_of, carry_out, make_photos, small_study

from levelfield.cli import main
from levelfield.progress import SILENT
from levelfield.reports.leaderboard.tables import explanation
from levelfield.studies import Study
from levelfield.studies.leaderboard.entries import Entry
from levelfield.studies.runs.corrupted_scores import evaluate_corrupted, record, recorded
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.joined.join import join, separate
from levelfield.studies.runs.spec import PlannedRun

FOUND = 6 / 7


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four items train. Of three others one photo is the gallery's and twice a query; of the last one, a query only."""
    place = tmp_path_factory.mktemp("shop")
    photos = make_photos(place / "photos")
    lines = []
    for number, item in enumerate(sorted(photos.iterdir())):
        if number < 4:
            lines += [(photo, item.name, "train", "") for photo in sorted(item.iterdir())]
            continue
        roles = ["gallery", "query", "query"] if number < 7 else ["query"]
        for place_of, role in enumerate(roles):
            if place_of:
                shutil.copy(item / "0.png", item / f"{place_of}.png")
            lines.append((item / f"{place_of}.png", item.name, "test", role))
    table = place / "shop.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "split", "role"), *lines])
    return table


@pytest.fixture(scope="module")
def compared(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, list[PlannedRun], Path]:
    place = tmp_path_factory.mktemp("runs")
    study = small_study(
        shop, ["contrastive", "triplet"], overrides=("protocol=query-gallery",), monitor="test", validate_every=2
    )
    runs, outcome = carry_out(study, place)
    assert not outcome.failed
    return study, runs, place


def folder_of(compared: tuple[Study, list[PlannedRun], Path]) -> Path:
    return compared[1][0].folder(compared[2])


def test_figures_classes_and_curve_agree(compared: tuple[Study, list[PlannedRun], Path]) -> None:
    result = read_result(folder_of(compared))
    assert result is not None
    for metric in ("recall@1", "map@r"):
        assert result.values[metric] == FOUND
        values, classes = result.per_query(metric)
        assert values.tolist() == [1, 1, 1, 1, 1, 1, 0]
        assert len(np.unique(classes)) == 4
        means, weights = Entry(compared[1][0], [result]).class_means(metric)
        assert (means.tolist(), weights.tolist()) == ([1, 1, 1, 0], [2, 2, 2, 1])
    assert [one["test"] for one in result.summary["monitored"]] == [FOUND] * len(result.summary["monitored"])


def test_the_leaderboard_says_so(compared: tuple[Study, list[PlannedRun], Path]) -> None:
    board = board_of(*compared)
    cell = board.rows[0].cells["recall@1"]
    assert cell.mean == FOUND
    assert (cell.low, cell.high) == (None, None)  # 4 test classes
    said = "7 queries (missed where the gallery has no image of their class) against 3 images"
    assert any(said in line for line in explanation(board))


def test_under_corruptions(compared: tuple[Study, list[PlannedRun], Path]) -> None:
    folder = folder_of(compared)
    drops, found = evaluate_corrupted(folder, ["jpeg"], metrics=["recall@1"])
    assert drops.clean["recall@1"] == FOUND
    assert found["jpeg"].counted.all()
    assert record([folder], ["jpeg"], ["recall@1"]) == {}
    assert recorded(folder, "jpeg")["recall@1"] == drops.corrupted["jpeg"]["recall@1"] <= FOUND
    without, _ = evaluate_corrupted(folder, ["jpeg"], metrics=["recall@1"], lone="exclude")
    assert without.clean["recall@1"] == 1
    assert drops.corrupted["jpeg"]["recall@1"] == pytest.approx(without.corrupted["jpeg"]["recall@1"] * FOUND)


def test_joined_and_apart(compared: tuple[Study, list[PlannedRun], Path], tmp_path: Path) -> None:
    _, runs, place = compared
    members = join([run.folder(place) for run in runs], tmp_path / "both", ("r_precision",))  # they did not measure it
    together = read_result(tmp_path / "both")
    assert together is not None
    found = separate(members, together, ("r_precision",), progress=SILENT)
    for figure in (found.joined, found.separated, *found.members):
        assert figure["r_precision"].value == FOUND


def test_asked_again(
    compared: tuple[Study, list[PlannedRun], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["evaluate", str(folder_of(compared)), "--metrics", "recall@1", "--signatures", *words])
        return capsys.readouterr().out

    first = said("--per-class", str(tmp_path / "classes.csv"))
    assert "0.8571" in first
    assert "1 of them has no positive and counts as 0." in first
    assert "lone:miss" in first
    with (tmp_path / "classes.csv").open(newline="") as file:
        assert [float(line["recall@1"]) for line in csv.DictReader(file)] == [1, 1, 1, 0]
    without = said("--lone", "exclude")
    assert "1.0000" in without
    assert "lone:exclude" in without
