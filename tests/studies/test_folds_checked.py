"""A batch is checked against every fold before anything trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import make_photos, small_study

from levelfield.errors import LevelfieldError
from levelfield.studies import resolve


def test_a_batch_too_large_for_one_of_the_folds_is_refused_before_training(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=14, each=2)  # 7 train: folds leave 4, 5 and 5 of them
    folds = ("protocol={name: mlrc, folds: 3}",)
    fits = resolve(small_study(photos, ["triplet"], batch="4x2", overrides=folds)).runs
    assert sorted(run.spec.fold for run in fits if run.spec.fold is not None) == [0, 1, 2]
    with pytest.raises(LevelfieldError, match=r"Method 'triplet' in fold 0: A batch of 10 is too large for 8 images"):
        resolve(small_study(photos, ["triplet"], batch="5x2", overrides=folds))
