"""Who judges a search, what is charged to whom, and what a search would do before it is made."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
from small_world import make_photos, small_study

from levelfield import data
from levelfield.data import protocols
from levelfield.errors import BadSpecification
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.run import Options
from levelfield.tuning import Budget, How, Judge, Tuned, tune
from levelfield.tuning.outline import cost, outline


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "photos", classes=12)


def searched(study: object, folder: Path, trials: int, judge: Judge) -> Tuned:
    return tune(study, folder, How(budget=Budget(trials=trials), judge=judge, sampler="halton"), jobs=0)  # type: ignore[arg-type]


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
    few = searched(small_study(photos, ["lda"]), tmp_path / "few", 1, Judge(validation=0.01))
    assert few.record.judged_by == "2 validation classes (33% of the training classes)"
    own = with_splits(photos, tmp_path / "own.csv")
    told = searched(small_study(own, ["lda"]), tmp_path / "own", 1, Judge(validation=0.25)).record.judged_by
    assert told == "the 2 validation classes that 'own' defines"
    with pytest.raises(BadSpecification, match=r"--validation 0.25 would be ignored: 'own' defines 2 val"):
        searched(small_study(own, ["lda"]), tmp_path / "own", 1, Judge(validation=0.25, asked=True))


def test_folds_of_trials_are_reversed_if_those_of_the_protocol_are(photos: Path) -> None:
    catalog = data.create(photos)
    of = {"name": "mlrc", "folds": 3, "reversed": True}
    [fold] = protocols.create("choosing", catalog, of=of, parts=3, part=1)
    expected = protocols.create("mlrc", catalog, folds=3, reversed=True)[1]
    np.testing.assert_array_equal(fold.train, expected.train)
    np.testing.assert_array_equal(fold.validation, expected.validation)
    assert len(fold.train) < len(fold.validation)


def test_the_training_of_a_teacher_is_charged_to_its_student_once(photos: Path, tmp_path: Path) -> None:
    student = {"label": "pupil", "softmax": {"student": {"teacher": "elder", "form": "distill"}}}
    elder = {"label": "elder", "normalized_softmax": {}}
    study = small_study(photos, [student, elder])
    found = searched(study, tmp_path, 2, Judge(validation=0.4))
    images = {label: [t.images for t in found.trials if t.method == label] for label in ("pupil", "elder")}
    assert images == {"pupil": [2 * 48, 48], "elder": [48, 48]}
    taught = read_result(next(tmp_path.glob("elder/*")))
    assert taught is not None
    assert next(t for t in found.trials if t.method == "pupil").seconds > taught.seconds


def test_an_outline_counts_trials_and_runs_without_making_any(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["lda", "triplet", "untrained"])
    found = outline(study, How(budget=Budget(trials=5), judge=Judge(folds=3)))
    assert found.spaces.keys() == {"lda", "triplet"}
    assert found.spaces["triplet"].keys() >= {"margin"}
    known = cost(found, options=Options(cache_folder=tmp_path))
    assert {label: one.runs for label, one in known.trials.items()} == {"lda": 3, "triplet": 3}
    assert known.trials["triplet"].seconds > 0
    assert found.trials("triplet", 2.0) == 5
    timed = outline(study, How(budget=Budget(seconds=60)))
    assert (timed.trials("triplet", 2.0), timed.trials("lda", 2.0)) == (30, 30)
    seen = outline(study, How(budget=Budget(images=96)))
    assert seen.trials("triplet", None) == 2
