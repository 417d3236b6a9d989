"""The search: equal budgets, deterministic and resumable, without test classes, robust to failing trials, and what it
would do before it is made."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from small_world import make_photos, small_study

from levelfield import data
from levelfield.data import protocols
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import read_study
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.run import Options
from levelfield.tuning import Budget, Judge, SearchSettings, Trial, Tuned, TuningProgress, tune
from levelfield.tuning.outline import cost, outline
from levelfield.tuning.trials import best_trial

SEARCH = {"triplet.margin": [0.05, 0.3, "log"], "conditions.lr": [0.001, 0.01, "log"]}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "photos", classes=12)


def searched(study: Any, folder: Path, *, jobs: int = 0, trials: int = 6, **settings: Any) -> Tuned:
    settings = {"budget": Budget(trials=trials), "judge": Judge(validation=0.4), "sampler": "tpe", **settings}
    return tune(study, folder, SearchSettings(**settings), jobs=jobs)


def study_of(photos: Path, methods: list[Any] | None = None, **search: Any) -> Any:
    study = small_study(photos, methods or ["triplet"])
    return study.model_copy(update={"search": {**(SEARCH if methods is None else {}), **search}})


def told(trials: list[Trial]) -> list[tuple[Any, ...]]:
    """All of a trial but its time."""
    return [(t.method, t.number, t.settings, t.value, t.images, t.error) for t in trials]


def test_every_method_gets_the_same_number_of_trials_and_the_best_is_written(photos: Path, tmp_path: Path) -> None:
    found = searched(study_of(photos, ["triplet", {"lda": {}}], **SEARCH), tmp_path, trials=4)
    by_method = {label: [t for t in found.trials if t.method == label] for label in ("triplet", "lda")}
    assert {label: [t.number for t in trials] for label, trials in by_method.items()} == {
        "triplet": list(range(4)),
        "lda": list(range(4)),
    }
    written = read_study(tmp_path / "tuned.yaml")
    assert written == found.study
    assert written.name == "small-tuned"
    assert written.conditions.tuning_trials == 4
    for method in written.methods:
        best = best_trial(by_method[method.label])
        record = found.record.methods[method.label]
        assert record.trial == best.number
        assert record.values == tuple(t.value for t in by_method[method.label])
        assert method.settings["trials"] == 4
        assert best.settings.get("margin", method.settings.get("margin")) == method.settings.get("margin")
    assert (tmp_path / "trials.json").exists()
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "optuna.log")))
    assert len(optuna.load_study(study_name="lda", storage=storage).trials) == 4


def test_the_same_trials_come_with_any_number_of_jobs_and_after_an_interruption(photos: Path, tmp_path: Path) -> None:
    class Interrupting(TuningProgress):
        def on_trial(self, trial: Trial, *, spent: float) -> None:
            if trial.number == 2:
                raise KeyboardInterrupt

    whole = searched(study_of(photos), tmp_path / "whole", trials=4)
    assert told(searched(study_of(photos), tmp_path / "two", jobs=2, trials=4).trials) == told(whole.trials)
    settings = SearchSettings(budget=Budget(trials=4), judge=Judge(validation=0.4), sampler="tpe")
    with pytest.raises(KeyboardInterrupt):
        tune(study_of(photos), tmp_path / "stopped", settings, jobs=0, progress=Interrupting())
    again = searched(study_of(photos), tmp_path / "stopped", trials=4)
    assert told(again.trials) == told(whole.trials)
    assert again.study == whole.study.model_copy(update={"tuning": again.record})


def test_a_larger_budget_continues_the_smaller_one_and_a_second_search_counts_all_trials(
    photos: Path, tmp_path: Path
) -> None:
    few = searched(study_of(photos, [{"lda": {}}]), tmp_path / "first", trials=3)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("first/*/*/metrics.json")}
    more = searched(study_of(photos, [{"lda": {}}]), tmp_path / "first", trials=5)
    assert told(more.trials[:3]) == told(few.trials)
    assert made
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    again = searched(few.study, tmp_path / "second", trials=2)
    assert again.study.methods[0].settings["trials"] == 5
    assert again.study.conditions.tuning_trials == 5


def test_test_images_change_no_choice(photos: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(photos, other)
    test = protocols.create("standard", data.create(other))[0].test
    catalog = data.create(other)
    for k, index in enumerate(test):
        pixels = np.random.default_rng(k).integers(0, 256, size=(40, 40, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(catalog.paths[index])
    first, second = (searched(study_of(place), tmp_path / place.name, trials=4) for place in (photos, other))
    assert told(first.trials) == told(second.trials)
    assert first.study.methods == second.study.methods


def test_no_part_of_a_trial_holds_a_test_class(photos: Path) -> None:
    catalog = data.create(photos)
    test = protocols.create("standard", catalog)[0].test
    for settings in ({"validation": 0.4}, {"parts": 3, "part": 1}, {"of": {"name": "mlrc", "folds": 3}}):
        [fold] = protocols.create("choosing", catalog, **settings)
        assert not np.isin(np.concatenate([fold.train, fold.validation, fold.test]), test).any()
        assert (fold.validation == fold.test).all()
    with pytest.raises(BadSpecification, match="validation"):
        protocols.create("choosing", catalog)
    of = {"name": "mlrc", "folds": 3, "reversed": True}  # folds of trials are reversed if those of the protocol are
    [fold] = protocols.create("choosing", catalog, of=of, parts=3, part=1)
    expected = protocols.create("mlrc", catalog, folds=3, reversed=True)[1]
    np.testing.assert_array_equal(fold.train, expected.train)
    np.testing.assert_array_equal(fold.validation, expected.validation)
    assert len(fold.train) < len(fold.validation)


def test_folds_judge_by_their_mean(photos: Path, tmp_path: Path) -> None:
    found = searched(study_of(photos, [{"lda": {}}]), tmp_path, trials=2, judge=Judge(folds=3))
    assert len(list(tmp_path.glob("lda 0/*/metrics.json"))) == 3
    assert all(trial.value is not None for trial in found.trials)
    assert "3 class-disjoint folds" in found.record.judged_by
    too_few = r"Trials of 'lda' cannot be made.*training classes.*Use more classes or fewer"
    with pytest.raises(LevelfieldError, match=too_few):
        searched(study_of(photos, [{"lda": {}}]), tmp_path, judge=Judge(folds=6))


def test_a_method_without_ranges_gets_seeds_instead(photos: Path, tmp_path: Path) -> None:
    loss = tmp_path / "plain.py"
    loss.write_text(PLAIN_LOSS)
    found = searched(study_of(photos, [f"{loss}:Plain"]), tmp_path / "out", trials=3, jobs=1)
    assert len(found.trials) == 3
    assert found.record.methods["Plain"].ranges == {}
    assert found.record.methods["Plain"].trial is None
    assert found.study.methods[0].settings == {}
    seeds = {path.parent.name.split("-")[0] for path in (tmp_path / "out").glob("Plain */*/metrics.json")}
    assert seeds == {"seed0", "seed1", "seed2"}


PLAIN_LOSS = """
import torch

class Plain(torch.nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()
"""
TOUCHY_LOSS = """
import torch

class Touchy(torch.nn.Module):
    search = {"mood": ["calm", "refuses", "crashes"]}

    def __init__(self, mood: str = "calm"):
        super().__init__()
        self.mood = mood
        if mood == "refuses":
            raise TypeError("not in this mood")

    def forward(self, embeddings, labels):
        if self.mood == "crashes":
            raise RuntimeError("not with these settings")
        return (embeddings @ embeddings.T).logsumexp(1).mean()
"""


def test_an_own_loss_takes_part_and_a_trial_that_cannot_be_made_or_crashes_is_counted(
    photos: Path, tmp_path: Path
) -> None:
    loss = tmp_path / "touchy.py"
    loss.write_text(TOUCHY_LOSS)
    found = searched(study_of(photos, [f"{loss}:Touchy"]), tmp_path / "out", trials=4, jobs=1, sampler="grid")
    errors = {trial.settings.get("mood", "own"): trial.error for trial in found.trials}
    assert (errors["own"], errors["calm"]) == ("", "")
    assert errors["refuses"] == "TypeError: not in this mood"
    assert "not with these settings" in errors["crashes"]
    assert all((trial.value is None) == bool(trial.error) for trial in found.trials)
    assert found.record.methods["Touchy"].chosen.get("mood", "calm") == "calm"


def test_a_budget_of_images_is_the_same_for_all_and_later_trials_do_not_count(photos: Path, tmp_path: Path) -> None:
    found = searched(study_of(photos, ["triplet", "contrastive"]), tmp_path, budget=Budget(images=48 * 3))
    counts = {label: len([t for t in found.trials if t.method == label]) for label in ("triplet", "contrastive")}
    assert counts == {"triplet": 3, "contrastive": 3}


def test_common_conditions_are_searched_once_for_all(photos: Path, tmp_path: Path) -> None:
    study = study_of(photos, ["triplet", "contrastive"], **{"common.lr": [0.0001, 0.1, "log"]})
    found = searched(study, tmp_path, trials=2)
    assert len(found.record.common.values) == 2
    best = found.record.common.chosen
    assert found.study.conditions.lr == best.get("lr", study.conditions.lr)
    assert all("lr" not in method.settings for method in found.study.methods)


def test_steps_and_settings_are_chosen_by_one_metric_and_a_trial_keeps_any_gain(photos: Path, tmp_path: Path) -> None:
    study = small_study(
        photos,
        ["triplet"],
        select="map@r",
        validate_every=2,
        validate_start=True,
        min_delta=0.9,
        overrides=("protocol.validation=0.4",),
    )
    found = searched(study, tmp_path, trials=3)
    assert found.record.metric == "map@r"
    assert found.study.protocol.validation == 0.4  # the classes that judge trials choose the step, too
    assert found.study.conditions.min_delta == 0.9  # the comparison requires the gain that no trial has to reach
    assert len({trial.value for trial in found.trials}) > 1


def test_members_are_charged_once(photos: Path, tmp_path: Path) -> None:
    found = searched(study_of(photos, [{"dreml": {"members": 2, "meta_classes": 2}}]), tmp_path, trials=1)
    assert [trial.images for trial in found.trials] == [2 * 48]


def test_common_conditions_that_are_refused_make_failed_trials(photos: Path, tmp_path: Path) -> None:
    study = study_of(photos, ["triplet"], **{"common.batch": ["4x3", "many"]})
    found = searched(study, tmp_path, trials=4, sampler="halton").record.common
    refused = [s.get("batch") == "many" for s in found.settings]
    assert any(refused)
    assert [value is None for value in found.values] == refused


@pytest.mark.parametrize(
    ("method", "search", "told"),
    [
        ("untrained", {}, "nothing to tune"),
        ("lda", {"common.lr": [0.001, 0.01, "log"]}, "no method of the study trains"),
    ],
)
def test_a_study_without_anything_to_tune_is_refused(
    photos: Path, tmp_path: Path, method: str, search: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadSpecification, match=told):
        searched(study_of(photos, [method], **search), tmp_path)


def with_splits(photos: Path, file: Path) -> Path:
    """Six classes to train, two to validate, four to test, as the data itself says."""
    parts = ["train"] * 6 + ["validation"] * 2 + ["test"] * 4
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["path", "label", "split"])
        for part, folder in zip(parts, sorted(photos.iterdir()), strict=True):
            writer.writerows([image, folder.name, part] for image in sorted(folder.iterdir()))
    return file


def test_the_record_counts_the_classes_that_judged(photos: Path, tmp_path: Path) -> None:
    few = searched(small_study(photos, ["lda"]), tmp_path / "few", trials=1, judge=Judge(validation=0.01))
    assert few.record.judged_by == "2 validation classes (33% of the training classes)"
    own = with_splits(photos, tmp_path / "own.csv")
    judged_by = searched(small_study(own, ["lda"]), tmp_path / "own", trials=1, judge=Judge()).record.judged_by
    assert judged_by == "the 2 validation classes that 'own' defines"
    with pytest.raises(BadSpecification, match=r"--validation 0.25 would be ignored: 'own' defines 2 val"):
        searched(small_study(own, ["lda"]), tmp_path / "own", trials=1, judge=Judge(share_is_explicit=True))


def test_the_training_of_a_teacher_is_charged_to_its_student_once(photos: Path, tmp_path: Path) -> None:
    student = {"label": "pupil", "softmax": {"student": {"teacher": "elder", "form": "distill"}}}
    elder = {"label": "elder", "normalized_softmax": {}}
    study = small_study(photos, [student, elder])
    found = searched(study, tmp_path, trials=2)
    images = {label: [t.images for t in found.trials if t.method == label] for label in ("pupil", "elder")}
    assert images == {"pupil": [2 * 48, 48], "elder": [48, 48]}
    taught = read_result(next(tmp_path.glob("elder/*")))
    assert next(t for t in found.trials if t.method == "pupil").seconds > taught.seconds


def test_an_outline_counts_trials_and_runs_without_making_any(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["lda", "triplet", "untrained"])
    found = outline(study, SearchSettings(budget=Budget(trials=5), judge=Judge(folds=3)))
    assert found.spaces.keys() == {"lda", "triplet"}
    assert found.spaces["triplet"].keys() >= {"margin"}
    known = cost(found, options=Options(cache_folder=tmp_path))
    assert {label: one.runs for label, one in known.items()} == {"lda": 3, "triplet": 3}
    assert known["triplet"].seconds > 0
    assert found.trials("triplet", 2.0) == 5
    timed = outline(study, SearchSettings(budget=Budget(seconds=60)))
    assert (timed.trials("triplet", 2.0), timed.trials("lda", 2.0)) == (30, 30)
    seen = outline(study, SearchSettings(budget=Budget(images=96)))
    assert seen.trials("triplet", None) == 2
