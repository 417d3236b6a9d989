"""What a study will cost, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_world import make_photos, small_study

from levelfield.studies import prepare
from levelfield.studies.estimate import Estimate, estimate
from levelfield.studies.run import Options


def estimated(photos: Path, **protocol: Any) -> Estimate:
    study = small_study(photos, ["lda"], overrides=tuple(f"protocol.{key}={value}" for key, value in protocol.items()))
    return estimate(study, prepare(study), options=Options(), jobs=1)


def test_folds_store_the_features_of_an_image_once(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", classes=16, each=3)
    plain = estimated(photos).feature_bytes
    assert plain > 0
    assert estimated(photos, name="mlrc").feature_bytes == plain
    assert estimated(photos, validation=0.3).feature_bytes == plain
