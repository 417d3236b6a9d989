"""Queries searched in a gallery: training, evaluation, refinement, joining and re-evaluation.

A query whose class has no image in the gallery is a miss in every score of a run.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import board_of, carry_out, completed, make_photos, small_study

from levelfield.cli import main
from levelfield.data import corruptions
from levelfield.data.views.corrupted import CorruptedView
from levelfield.embedder import load
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate
from levelfield.progress import SILENT
from levelfield.reports.leaderboard.tables import explanation
from levelfield.studies import Leaderboard, PlannedRun, Study
from levelfield.studies.leaderboard.entries import Entry
from levelfield.studies.runs.corrupted_scores import evaluate_corrupted, record, recorded
from levelfield.studies.runs.finished import stored_test
from levelfield.studies.runs.folder.files import read_finished, read_training, write_finished, write_training
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.joined.join import join, separate

REFINE = {"by": "reciprocal", "k": 2, "size": 3}
METHODS: list[Any] = [
    "contrastive",
    "triplet",
    {"label": "both", "ensemble": {"of": ["contrastive", "triplet"]}},
    {"label": "plain", "message_passing": {"heads": 2}},
    {"label": "refined", "message_passing": {"heads": 2, "refine": REFINE}},
]
FOUND = 6 / 7  # of the queries of `gaps`


class Shop:
    """A table of photos with roles, and a finished study on it."""

    def __init__(self, home: Path, lines: Iterable[tuple[Path, str, str, str]], methods: list[Any]) -> None:
        self.table = home / "shop.csv"
        with self.table.open("w", newline="") as file:
            csv.writer(file).writerows([("path", "label", "split", "role"), *lines])
        overrides = ("protocol=query-gallery", "metrics=[recall@1, nmi, map@r, rho]")
        self.study: Study = small_study(self.table, methods, overrides=overrides, monitor="test", validate_every=2)
        self.home = home / "runs"
        self.runs: list[PlannedRun]
        self.runs, outcome = carry_out(self.study, self.home)
        assert not outcome.failed, outcome.failed
        self.folders = {run.label: run.folder(self.home) for run in self.runs}

    @property
    def board(self) -> Leaderboard:
        return board_of(self.study, self.runs, self.home)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Eight items with five photos: four items train, of the others two photos each are queries."""
    home = tmp_path_factory.mktemp("shop")
    lines = []
    for number, item in enumerate(sorted(make_photos(home / "photos").iterdir())):
        for position, photo in enumerate(sorted(item.iterdir())):
            role = "" if number < 4 else "query" if position < 2 else "gallery"
            lines.append((photo, item.name, "test" if role else "train", role))
    return Shop(home, lines, METHODS)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Four items train. Of three others one photo is the gallery's and twice a query, so that any network finds it; of
    the last one, a query only."""
    home = tmp_path_factory.mktemp("gaps")
    lines = []
    for number, item in enumerate(sorted(make_photos(home / "photos").iterdir())):
        if number < 4:
            lines += [(photo, item.name, "train", "") for photo in sorted(item.iterdir())]
            continue
        for position, role in enumerate(["gallery", "query", "query"] if number < 7 else ["query"]):
            if position:
                shutil.copy(item / "0.png", item / f"{position}.png")
            lines.append((item / f"{position}.png", item.name, "test", role))
    return Shop(home, lines, METHODS[:2])


def test_queries_are_searched_in_the_gallery_alone(shop: Shop) -> None:
    for label, folder in shop.folders.items():
        rows, items = stored_test(folder)
        queries, result = items.queries, read_result(folder)
        assert (len(rows), int(queries.sum())) == (20, 8)
        gallery = {"gallery": rows[~queries], "gallery_labels": items.classes[~queries]}
        expected = evaluate(rows[queries], items.classes[queries], **gallery, metrics=("recall@1",))["recall@1"]
        assert result.values["recall@1"] == pytest.approx(expected)
        assert len(result.per_query("recall@1")[0]) == 8
        if label in ("contrastive", "triplet", "plain"):
            assert result.summary["monitored"][-1]["test"] == pytest.approx(expected)
    board = shop.board
    assert {row.label for row in board.rows} == set(shop.folders)
    definition = next(iter(board.signatures.values()))["recall@1"]
    assert (definition["queries"], definition["gallery"]) == (8, 12)


def test_the_leaderboard_says_which_figures_are_of_the_queries_alone(shop: Shop, tmp_path: Path) -> None:
    without = small_study(shop.table.parent / "photos", ["start"], overrides=("metrics=[recall@1, nmi, map@r, rho]",))
    runs = completed(without, tmp_path)
    for board, of_queries in ((shop.board, True), (board_of(without, runs, tmp_path), False)):
        text = " ".join(explanation(board))
        searched = "8 queries (missed where the gallery has no image of their class) against 12 images"
        assert (searched in text) == of_queries
        assert (". nmi, rho: computed on the queries alone." in text) == of_queries


def test_only_queries_are_refined_also_on_corrupted_images(shop: Shop) -> None:
    folder = shop.folders["refined"]
    (before, items), (after, _) = (stored_test(shop.folders[label]) for label in ("plain", "refined"))
    queries = items.queries
    assert np.array_equal(before[~queries], after[~queries])
    assert not np.allclose(before[queries], after[queries])
    assert not record([folder], ["jpeg"], ["recall@1"])
    model = load(folder)
    view = CorruptedView(model.view, corruptions.create("jpeg"))
    plain = replace(model, view=view).embed(items.paths, normalize=False)
    corrupted = np.load(folder / "corrupted" / "jpeg.npy")
    assert np.array_equal(corrupted[~queries], plain[~queries])
    assert np.array_equal(corrupted[queries], load_method(folder).refine(plain[queries], plain[~queries]))


def test_a_member_is_measured_as_the_whole_is(shop: Shop, tmp_path: Path) -> None:
    folders = [shutil.copytree(shop.folders[label], tmp_path / label) for label in ("contrastive", "triplet")]
    members = join(folders, tmp_path / "both", ("recall@2",))  # which the runs did not measure
    scores = separate(members, read_result(tmp_path / "both"), ("recall@2",), progress=SILENT)
    for folder, figures in zip(folders, scores.members, strict=True):
        rows, items = np.load(folder / "embeddings.npy"), Items.read(folder)
        assert figures["recall@2"].value == evaluate(**items.arrays(rows), metrics=("recall@2",))["recall@2"]
    items = Items.read(folders[1])
    Items(items.paths, items.classes, np.roll(items.queries, 1).choose(["gallery", "query"])).write(folders[1])
    write_training(folders[1], read_training(folders[1]))  # as if it had always been so
    write_finished(folders[1], read_finished(folders[1]))
    with pytest.raises(BadInput, match=r"'(query|gallery)'\) against .*'(query|gallery)'"):
        join(folders, tmp_path / "mixed", ("recall@1",))


def test_a_query_without_a_positive_is_a_miss_in_figures_classes_curve_and_leaderboard(gaps: Shop) -> None:
    result = read_result(gaps.folders["contrastive"])
    for metric in ("recall@1", "map@r"):
        assert result.values[metric] == FOUND
        values, classes = result.per_query(metric)
        assert values.tolist() == [1, 1, 1, 1, 1, 1, 0]
        assert len(np.unique(classes)) == 4
        means, weights = Entry(gaps.runs[0], [result]).class_means(metric)
        assert (means.tolist(), weights.tolist()) == ([1, 1, 1, 0], [2, 2, 2, 1])
    assert [each["test"] for each in result.summary["monitored"]] == [FOUND] * len(result.summary["monitored"])
    cell = gaps.board.rows[0].cells["recall@1"]
    assert cell.mean == FOUND
    assert (cell.low, cell.high) == (None, None)  # 4 test classes
    text = "7 queries (missed where the gallery has no image of their class) against 3 images"
    assert any(text in line for line in explanation(gaps.board))


def test_it_is_a_miss_under_corruptions_and_in_joined_runs(gaps: Shop, tmp_path: Path) -> None:
    folder = gaps.folders["contrastive"]
    evaluations = evaluate_corrupted(folder, ["jpeg"], metrics=["recall@1"])
    assert evaluations["clean"]["recall@1"] == FOUND
    assert evaluations["jpeg"].counted.all()
    assert record([folder], ["jpeg"], ["recall@1"]) == {}
    assert recorded(folder, "jpeg")["recall@1"] == evaluations["jpeg"]["recall@1"] <= FOUND
    without = evaluate_corrupted(folder, ["jpeg"], metrics=["recall@1"], lone="exclude")
    assert without["clean"]["recall@1"] == 1
    assert evaluations["jpeg"]["recall@1"] == pytest.approx(without["jpeg"]["recall@1"] * FOUND)
    members = join([*gaps.folders.values()], tmp_path / "both", ("r_precision",))  # they did not measure it
    scores = separate(members, read_result(tmp_path / "both"), ("r_precision",), progress=SILENT)
    for figure in (scores.joined, scores.separated, *scores.members):
        assert figure["r_precision"].value == FOUND


def test_it_is_a_miss_when_a_run_is_evaluated_again(
    gaps: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*words: str) -> str:
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["evaluate", str(gaps.folders["contrastive"]), "--metrics", "recall@1", "--signatures", *words])
        return capsys.readouterr().out

    first = printed("--per-class", str(tmp_path / "classes.csv"))
    for text in ("0.8571", "1 of them has no positive and counts as 0.", "lone:miss"):
        assert text in first
    with (tmp_path / "classes.csv").open(newline="") as file:
        assert [float(line["recall@1"]) for line in csv.DictReader(file)] == [1, 1, 1, 0]
    without = printed("--lone", "exclude")
    for text in ("1.0000", "lone:exclude"):
        assert text in without
