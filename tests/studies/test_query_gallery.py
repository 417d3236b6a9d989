"""Queries searched in a gallery: training, evaluation, refinement, joining and re-evaluation."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import board_of, carry_out, make_photos, run_one, small_study

from levelfield.data import corruptions
from levelfield.data.views.corrupted import CorruptedView
from levelfield.embedder import Model, load
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate
from levelfield.progress import SILENT
from levelfield.reports.leaderboard.tables import explanation
from levelfield.studies.runs.corrupted_scores import record
from levelfield.studies.runs.finished import stored_test
from levelfield.studies.runs.folder.files import read_finished, read_training, write_finished, write_training
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.joined.join import join, separate

MESSAGES: dict[str, Any] = {"message_passing": {"heads": 2, "refine": {"by": "reciprocal", "k": 2, "size": 3}}}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Eight items with five photos: four items train, of the others two photos each are queries."""
    photos = make_photos(tmp_path / "photos")
    table = tmp_path / "shop.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "split", "role"])
        for number, item in enumerate(sorted(photos.iterdir())):
            for place, photo in enumerate(sorted(item.iterdir())):
                tested = number >= 4
                role = ("query" if place < 2 else "gallery") if tested else ""
                writer.writerow([photo, item.name, "test" if tested else "train", role])
    return table


def test_queries_are_looked_for_in_the_gallery_alone(shop: Path, tmp_path: Path) -> None:
    study = small_study(
        shop,
        ["contrastive", "triplet", {"label": "both", "ensemble": {"of": ["contrastive", "triplet"]}}],
        overrides=("protocol=query-gallery",),
    )
    runs, outcome = carry_out(study, tmp_path / "runs")
    assert not outcome.failed
    for run in runs:
        folder = run.folder(tmp_path / "runs")
        rows, items = stored_test(folder)
        assert (len(rows), int(items.queries.sum())) == (20, 8)
        asked = items.queries
        expected = evaluate(
            rows[asked],
            items.classes[asked],
            gallery=rows[~asked],
            gallery_labels=items.classes[~asked],
            metrics=("recall@1",),
        )
        result = read_result(folder)
        assert result is not None
        assert result.values["recall@1"] == pytest.approx(expected["recall@1"])
        assert len(result.per_query("recall@1")[0]) == 8
    board = board_of(study, runs, tmp_path / "runs")
    assert {row.label for row in board.rows} == {"contrastive", "triplet", "both"}
    definition = next(iter(board.signatures.values()))["recall@1"]
    assert (definition["queries"], definition["gallery"]) == (8, 12)


def test_the_leaderboard_says_which_figures_are_of_the_queries_alone(shop: Path, tmp_path: Path) -> None:
    for data, of_queries in ((shop, True), (tmp_path / "photos", False)):
        study = small_study(data, ["start"], overrides=("metrics=[recall@1, nmi, map@r, rho]",))
        runs, outcome = carry_out(study, tmp_path / f"runs of {data.name}")
        assert not outcome.failed
        told = " ".join(explanation(board_of(study, runs, tmp_path / f"runs of {data.name}")))
        said = "8 queries (missed where the gallery has no image of their class) against 12 images"
        assert (said in told) == of_queries
        assert (". nmi, rho: computed on the queries alone." in told) == of_queries


def test_only_queries_are_refined(shop: Path, tmp_path: Path) -> None:
    plain = small_study(shop, [{"message_passing": {"heads": 2}}], overrides=("protocol=query-gallery",))
    refined = small_study(shop, [MESSAGES], overrides=("protocol=query-gallery",))
    found = []
    for name, study in (("plain", plain), ("refined", refined)):
        runs, outcome = carry_out(study, tmp_path / name)
        assert not outcome.failed, outcome.failed
        found.append(stored_test(runs[0].folder(tmp_path / name)))
    (before, items), (after, _) = found
    asked = items.queries
    assert np.array_equal(before[~asked], after[~asked])
    assert not np.allclose(before[asked], after[asked])


def test_only_queries_are_refined_on_corrupted_images_too(shop: Path, tmp_path: Path) -> None:
    folder = run_one(small_study(shop, [MESSAGES], overrides=("protocol=query-gallery",)), tmp_path)
    assert not record([folder], ["jpeg"], ["recall@1"])
    model, items = load(folder), Items.read(folder)
    assert isinstance(model, Model)
    view = CorruptedView(model.view, corruptions.create("jpeg"))
    plain = replace(model, view=view).embed(items.paths, normalize=False)
    found, asked = np.load(folder / "corrupted" / "jpeg.npy"), items.queries
    assert np.array_equal(found[~asked], plain[~asked])
    assert np.array_equal(found[asked], load_method(folder).refine(plain[asked], plain[~asked]))


def test_a_watched_run_looks_in_the_gallery(shop: Path, tmp_path: Path) -> None:
    study = small_study(shop, ["contrastive"], overrides=("protocol=query-gallery",), monitor="test", validate_every=2)
    runs, outcome = carry_out(study, tmp_path / "runs")
    assert not outcome.failed
    result = read_result(runs[0].folder(tmp_path / "runs"))
    assert result is not None
    assert result.summary["monitored"][-1]["test"] == pytest.approx(result.values["recall@1"])


def test_a_member_is_measured_as_the_whole_is(shop: Path, tmp_path: Path) -> None:
    both = ["contrastive", "triplet"]
    runs, _ = carry_out(small_study(shop, both, overrides=("protocol=query-gallery",)), tmp_path)
    folders = [run.folder(tmp_path) for run in runs]
    members = join(folders, tmp_path / "both", ("recall@2",))  # which the runs did not measure
    together = read_result(tmp_path / "both")
    assert together is not None
    found = separate(members, together, ("recall@2",), progress=SILENT)
    for folder, figures in zip(folders, found.members, strict=True):
        rows, items = np.load(folder / "embeddings.npy"), Items.read(folder)
        assert figures["recall@2"].value == evaluate(**items.arrays(rows), metrics=("recall@2",))["recall@2"]
    items = Items.read(folders[1])
    Items(items.paths, items.classes, np.roll(items.queries, 1).choose(["gallery", "query"])).write(folders[1])
    write_training(folders[1], read_training(folders[1]))  # as if it had always been so
    write_finished(folders[1], read_finished(folders[1]))
    with pytest.raises(BadInput, match="or their queries differ"):
        join(folders, tmp_path / "mixed", ("recall@1",))


def test_items_are_written_as_they_are_read(tmp_path: Path) -> None:
    for roles in (None, np.array(["query", "gallery"])):
        Items(["a, b.jpg", "c.jpg"], np.array(["x", "y"]), roles).write(tmp_path)
        again = Items.read(tmp_path)
        assert again.paths == ["a, b.jpg", "c.jpg"]
        assert (again.roles is None) == (roles is None)
