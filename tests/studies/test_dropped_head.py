"""A head that takes part in training and is dropped, and test images of another size than the training images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield
from drawn_photos import make_photos
from levelfield.embedder import load
from levelfield.errors import BadSpecification
from levelfield.studies.runs.folder.store import read_result

NETWORK = {"backbone": "conv4", "weights": "random", "cut": "tuned", "image": 32, "views": 0, "batch": "2x3"}


def _run(tmp_path: Path, **conditions: Any) -> Path:
    photos = tmp_path / "photos"
    if not photos.exists():
        make_photos(photos, classes=6, each=4)
    study = {
        "data": str(photos),
        "conditions": {**NETWORK, "steps": 3, "lr": 0.01, "dim": 64, **conditions},
        "methods": ["contrastive"],
        "seeds": 1,
        "metrics": ["recall@1"],
    }
    return Path(levelfield.compare(study, out=tmp_path / "runs", page=False).best.first_run)


def test_a_dropped_head_trains_and_the_features_below_it_are_the_embedding(tmp_path: Path) -> None:
    kept, dropped = _run(tmp_path), _run(tmp_path, head="dropped")
    with_head, without = load(kept), load(dropped)
    assert any("head" in name for name, _ in with_head.embedder.named_parameters())
    assert not any("head" in name for name, _ in without.embedder.named_parameters())
    for name, weight in without.embedder.trunk.state_dict().items():  # trained alike
        np.testing.assert_array_equal(weight, with_head.embedder.trunk.state_dict()[name])
    result = read_result(dropped)
    assert result.measured["dim"] == 64
    assert not result.deviations


def test_a_dropped_head_needs_as_many_dimensions_as_features(tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match="set dim to 64, not 8"):
        _run(tmp_path, head="dropped", dim=8)


def test_images_are_tested_at_their_own_size(tmp_path: Path) -> None:
    run = _run(tmp_path, test_image=48)
    assert load(run).view.image == 48
    with pytest.raises(BadSpecification, match="pooling: grid needs one size"):
        _run(tmp_path, test_image=48, pooling="grid")
    steps = [{"resize": 32}, {"centre": 32}]
    with pytest.raises(BadSpecification, match="test_view ends with 32 pixels, but test_image is 48"):
        _run(tmp_path, test_image=48, test_view=steps)
