"""Joined runs: written files, requirements, and interruption."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_world
import yaml

import levelfield
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, joined
from levelfield.files.writing import write_text, write_whole
from levelfield.studies import resolve
from levelfield.studies.execution.workers import run_all
from levelfield.studies.runs.finished import embed_part, how_many_models
from levelfield.studies.runs.folder.files import read_training, write_training
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.joined import join as joining
from levelfield.studies.runs.joined.join import join
from levelfield.studies.runs.joined.members import spec_of
from levelfield.studies.runs.run import Options

METRICS = ("recall@1", "map@r")


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four finished runs: two methods, two seeds."""
    folder = tmp_path_factory.mktemp("study")
    study = small_world.small_study(photos, ["contrastive", "normalized_softmax"], overrides=("seeds=2",))
    small_world.completed(study, folder)
    return folder


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> list[Path]:
    shutil.copytree(made, tmp_path / "study")
    return sorted((tmp_path / "study").glob("*/seed*"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_joined_folder_is_a_finished_run(runs: list[Path], tmp_path: Path) -> None:
    join(runs[:3], tmp_path / "all", METRICS)
    rows = np.load(tmp_path / "all" / "embeddings.npy")
    np.testing.assert_array_equal(rows, joined([np.load(run / "embeddings.npy") for run in runs[:3]]))
    result = read_result(tmp_path / "all")
    with np.load(runs[0] / "per_query.npz") as arrays:
        labels = arrays["labels"]
    assert result.values == dict(evaluate(rows, labels, metrics=METRICS))
    assert result.signatures["map@r"]["representation"]["ensemble"] == 3
    assert result.signatures["map@r"]["definition"] == read_result(runs[0]).signatures["map@r"]["definition"]
    assert (tmp_path / "all" / "items.csv").read_bytes() == (runs[0] / "items.csv").read_bytes()
    paths = [line.split(",")[0] for line in (tmp_path / "all" / "items.csv").read_text().splitlines()[1:]]
    model = levelfield.load(tmp_path / "all")
    np.testing.assert_array_equal(model.embed(paths, normalize=False), rows)
    assert model.about["method"] == "ensemble"
    assert how_many_models(tmp_path / "all") == 3


def test_the_cost_of_all_members_and_their_deviations_are_told(runs: list[Path], tmp_path: Path) -> None:
    join(runs[1:3], tmp_path / "both", METRICS)  # one without deviations, one with proxies
    result = read_result(tmp_path / "both")
    members = [read_result(run) for run in runs[1:3]]
    for key in ("seconds", "images", "step", "rows_through_trunk", "idle_batches"):
        assert result.summary[key] == sum(each.summary[key] for each in members)
    assert result.seconds == result.summary["seconds"]
    assert result.summary["peak_bytes"] == max(each.summary["peak_bytes"] for each in members)
    own = ["members 2 (1)", "dim 16 (8)", "trunk passes 2 (1)"]
    assert result.deviation_texts == [*own, *members[1].deviation_texts]
    told = yaml.safe_load((tmp_path / "both" / "ensemble.yaml").read_text())["members"]
    assert [(each["label"], each["seed"]) for each in told] == [("contrastive", 1), ("normalized_softmax", 0)]
    assert [each["identity"] for each in told] == [run.name.rpartition("-")[2] for run in runs[1:3]]


def test_an_ensemble_of_an_ensemble_counts_all_networks_and_passes(runs: list[Path], tmp_path: Path) -> None:
    join(runs[:2], tmp_path / "inner", METRICS)
    join([tmp_path / "inner", runs[2]], tmp_path / "outer", METRICS)
    texts = read_result(tmp_path / "outer").deviation_texts
    assert texts[:3] == ["members 3 (1)", "dim 24 (8)", "trunk passes 3 (1)"]
    shutil.rmtree(tmp_path / "inner")
    rows, names = embed_part(tmp_path / "outer", "training")
    assert rows.shape == (20, 24)
    assert len(set(names)) == 4


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "name", ["ensemble.yaml", "embeddings.npy", "model.yaml", "training.json", "per_query.npz", "metrics.json"]
)
def test_a_joining_that_was_cut_off_goes_on_to_the_same_bits(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    join(runs[:2], tmp_path / "whole", METRICS)
    rename = Path.replace

    def strike(self: Path, target: Path) -> Path:
        if moment == "before" and target.name == name:
            raise KeyboardInterrupt
        result = rename(self, target)
        if target.name == name:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", strike)
        with pytest.raises(KeyboardInterrupt):
            join(runs[:2], tmp_path / "cut", METRICS)
    if (name, moment) != ("metrics.json", "after"):
        assert read_result(tmp_path / "cut") is None
    join(runs[:2], tmp_path / "cut", METRICS)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_new_metric_is_measured_from_the_stored_rows_of_the_same_runs(runs: list[Path], tmp_path: Path) -> None:
    join(runs[:2], tmp_path / "both", METRICS)
    written = (tmp_path / "both" / "embeddings.npy").stat().st_mtime_ns
    join(runs[:2], tmp_path / "both", ("mrr",))
    assert set(read_result(tmp_path / "both").values) == {*METRICS, "mrr"}
    assert (tmp_path / "both" / "embeddings.npy").stat().st_mtime_ns == written
    with pytest.raises(BadInput, match="joins other runs"):
        join(runs[1:3], tmp_path / "both", METRICS)


def changed(run: Path, change) -> None:
    lines = (run / "items.csv").read_text().splitlines()
    lines = [lines[0], *change(lines[1:])]
    write_text(run / "items.csv", "\n".join(lines) + "\n")
    write_whole(run / "embeddings.npy", lambda file: np.save(file, np.eye(len(lines) - 1, 8, dtype=np.float32)))
    write_training(run, read_training(run))  # with the checksums of the new files


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], r"19 and 20; .*one has more"),
        (lambda lines: ["other.png,class04", *lines[1:]], r"'other\.png', 'class04', ''\) against"),
        (lambda lines: [*lines[:-1], lines[-1].replace(",class07", ",class99")], r"'class99', ''\) against"),
    ],
)
def test_runs_on_other_test_images_are_refused(runs: list[Path], tmp_path: Path, change, said: str) -> None:
    changed(runs[1], change)
    with pytest.raises(BadInput, match=said):
        join(runs[:2], tmp_path / "both", METRICS)
    assert not (tmp_path / "both").exists()


def test_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No runs to join"):
        join([], tmp_path / "x", METRICS)
    assert not (tmp_path / "x").exists()


def test_members_that_trained_on_other_classes_have_no_training_classes_in_common(
    runs: list[Path], tmp_path: Path
) -> None:
    join(runs[:2], tmp_path / "both", METRICS)
    assert spec_of(tmp_path / "both").data_digest == spec_of(runs[0]).data_digest
    described = tmp_path / "both" / "members" / "1" / "run.yaml"
    content = yaml.safe_load(described.read_text())
    write_text(described, yaml.safe_dump({**content, "fold": 1}))
    with pytest.raises(BadInput, match="were trained on different images"):
        spec_of(tmp_path / "both")
    assert spec_of(runs[1]).fold is None  # a second name, not the same file any more


def test_runs_without_test_images_give_a_model_without_figures(photos: Path, tmp_path: Path) -> None:
    study = small_world.small_study(photos, ["contrastive", "normalized_softmax"], overrides=("protocol=all-classes",))
    planned = resolve(study, tested=False).runs
    assert not run_all(planned, tmp_path / "study", METRICS, jobs=0, options=Options()).failed
    join([run.folder(tmp_path / "study") for run in planned], tmp_path / "both", METRICS)
    assert read_result(tmp_path / "both").values == {}
    assert levelfield.load(tmp_path / "both").dim == 16
    assert json.loads((tmp_path / "both" / "training.json").read_text())["measured"]["members"] == 2
    assert joining.ENSEMBLE in contents(tmp_path / "both")


def test_runs_on_a_copy_of_the_images_are_joined(runs: list[Path], photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "copied")
    study = small_world.small_study(tmp_path / "copied", ["lda"])
    [run], _ = small_world.carry_out(study, tmp_path / "other")
    [_, other] = join([runs[0], run.folder(tmp_path / "other")], tmp_path / "both", METRICS)
    assert other.items[0][0].startswith(str(tmp_path / "copied"))
