"""Runs on corrupted test images: all runs see the same images, no work is repeated."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_world import carry_out, run_one, small_study

import levelfield
from levelfield.data import corruptions, read_image
from levelfield.data.views.corrupted import CorruptedView, identity
from levelfield.embedder import load
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, joined
from levelfield.evaluation.search.threads import torch_threads
from levelfield.progress import CallbackProgress
from levelfield.studies.runs import corrupted_scores as corrupted
from levelfield.studies.runs.corrupted_scores import evaluate_corrupted, record, recorded
from levelfield.studies.runs.finished import how_refined, stored_test
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.studies.runs.folder.store import read_plan, read_result
from levelfield.studies.runs.joined.join import join

NAMES, METRICS = ["jpeg", "cutout", "rotation"], ["recall@1"]


def rows_of(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / "corrupted" / f"{name}.npy")


@pytest.fixture(scope="module")
def runs(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three finished runs that are only read: two heads on one frozen trunk, and one with a trained stage."""
    place = tmp_path_factory.mktemp("runs")
    study = small_study(photos, ["margin", "contrastive"])
    planned, outcome = carry_out(study, place)
    assert not outcome.failed
    deep = run_one(small_study(photos, ["margin"], cut="last-1"), place / "deep")
    return [*(run.folder(place) for run in planned), deep]


def test_the_model_embeds_what_was_corrupted_after_cropping(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runs[0]
    names = ["rotation", "jpeg"]
    results = evaluate_corrupted(folder, names, metrics=["recall@1", "map@r"])
    model = load(folder)
    clean, items = stored_test(folder)
    paths = items.paths
    assert results["clean"]["map@r"] == evaluate(clean, items.classes, metrics=["map@r"])["map@r"]
    expected = [evaluate(rows_of(folder, name), items.classes, metrics=["map@r"])["map@r"] for name in names]
    assert [results[name]["map@r"] for name in names] == expected
    assert set(results) == {"clean", *names}
    for name in names:
        pictures = []
        for path in paths:
            image = read_image(path)
            cropped = np.asarray(model.view.picture(image))
            pictures.append(corruptions.create(name)(cropped, corruptions.stream(name, identity(image))))
        assert np.array_equal(rows_of(folder, name), model.embed(pictures, normalize=False))
    monkeypatch.setattr(corrupted, "load", lambda folder: pytest.fail("a model was loaded again"))
    evaluate_corrupted(folder, ["jpeg"], metrics=["map@r"])


def test_runs_that_are_asked_together_get_what_they_get_alone(runs: list[Path], tmp_path: Path) -> None:
    failed = record(runs, ["cutout"], ["recall@1"])
    assert not failed
    together = [rows_of(folder, "cutout") for folder in runs]
    for folder, rows in zip(runs, together, strict=True):
        (folder / "corrupted" / "cutout.json").unlink()
        record([folder], ["cutout"], ["recall@1"])
        assert np.array_equal(rows_of(folder, "cutout"), rows)
    assert not np.array_equal(together[0], together[1])


def test_rows_of_another_corruption_do_not_count(runs: list[Path]) -> None:
    """Half written (no note), or made when the corruption was another one."""
    evaluate_corrupted(runs[0], ["perspective"], metrics=["recall@1"])
    place = runs[0] / "corrupted"
    good = rows_of(runs[0], "perspective")
    for note in ('{"corruption": "perspective(scale=(0, 1);version=0)", "values": {"recall@1": 2}}', "{half"):
        (place / "perspective.json").write_text(note)
        np.save(place / "perspective.npy", np.zeros_like(good))
        assert recorded(runs[0], "perspective") == {}
        record([runs[0]], ["perspective"], ["recall@1"])
        assert np.array_equal(rows_of(runs[0], "perspective"), good)
        assert 0 <= recorded(runs[0], "perspective")["recall@1"] <= 1


def test_runs_and_folds_are_joined_on_corrupted_images_too(runs: list[Path], photos: Path, tmp_path: Path) -> None:
    join(runs[:2], tmp_path / "both", ("recall@1",))
    study = small_study(photos, ["contrastive"], overrides=("protocol={name: mlrc, folds: 2}",), steps=1, batch="2x2")
    planned, outcome = carry_out(study, tmp_path)
    assert not outcome.failed
    *folds, together = [run.folder(tmp_path) for run in planned]
    for members, joint in ((runs[:2], tmp_path / "both"), (folds, together)):
        assert not record([*members, joint], ["jpeg"], ["recall@1"])
        assert np.array_equal(rows_of(joint, "jpeg"), joined([rows_of(folder, "jpeg") for folder in members]))


def test_a_study_measures_every_run_and_shows_what_each_row_loses(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["untrained", "margin"], overrides=("corruptions=[jpeg, cutout]", "seeds=2"))
    assert study.corruptions == ("jpeg", "cutout")
    with torch_threads(2):
        report = levelfield.compare(study, out=tmp_path)
        assert torch.get_num_threads() == 2  # the caller's own, which no run has changed
    runs = read_plan(tmp_path / "small")
    assert len(runs) == 3  # untrained has no seed
    found = report.robustness
    assert not found.missing
    assert [row["label"] for row in found.rows] == [row.label for row in report.leaderboard.rows]
    own = [run.folder(tmp_path / "small") for run in runs if run.label == "margin"]
    drops = [read_result(folder).values["recall@1"] - recorded(folder, "jpeg")["recall@1"] for folder in own]
    row = next(row for row in found.rows if row["label"] == "margin")
    assert row["drops"]["jpeg"] == pytest.approx(np.mean(drops))
    assert row["runs"] == 2


def test_a_method_that_refines_does_so_on_corrupted_images_too(photos: Path, tmp_path: Path) -> None:
    method = {"message_passing": {"heads": 2, "refine": {"by": "reciprocal", "k": 4, "size": 6}}}
    folder = run_one(small_study(photos, [method]), tmp_path)
    assert how_refined(folder)
    evaluate_corrupted(folder, ["gaussian_blur"], metrics=["recall@1"])
    model, paths = load(folder), stored_test(folder)[1].paths
    view = CorruptedView(model.view, corruptions.create("gaussian_blur"))
    plain = replace(model, view=view).embed(paths, normalize=False)
    found = rows_of(folder, "gaussian_blur")
    assert np.array_equal(found, load_method(folder).refine(plain))
    assert not np.array_equal(found, plain)


@pytest.fixture
def copies(runs: list[Path], tmp_path: Path) -> list[Path]:
    """Two runs without corrupted images."""
    bare = shutil.ignore_patterns("corrupted")
    return [shutil.copytree(folder, tmp_path / str(k), ignore=bare) for k, folder in enumerate(runs[:2])]


def test_a_run_that_cannot_be_asked_stops_no_other(copies: list[Path], tmp_path: Path) -> None:
    heard: list[tuple[Path, str, int, int]] = []
    progress = {run: CallbackProgress(lambda *stage, run=run: heard.append((run, *stage))) for run in copies}
    failed = record([tmp_path / "nowhere", *copies], NAMES, METRICS, progress)
    assert heard[-1] == (copies[-1], "corrupted", 3, 3)
    assert list(failed) == [tmp_path / "nowhere"]
    assert all(recorded(folder, name) for folder in copies for name in NAMES)
    with pytest.raises(BadInput, match="has no test embeddings"):
        evaluate_corrupted(tmp_path / "nowhere", ["jpeg"], metrics=["recall@1"])


def test_what_stops_all_runs_is_reported_of_each_that_is_not_measured(
    copies: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(copies[:1], NAMES, METRICS)
    monkeypatch.setattr(corrupted, "_tested", lambda folder: (Path("gone.png"),))
    failed = record(copies, NAMES, METRICS)
    assert list(failed) == copies[1:]
    assert "gone.png" in failed[copies[1]]
