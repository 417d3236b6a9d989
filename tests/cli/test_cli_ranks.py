"""`levelfield ranks`: methods over datasets, as text, JSON and diagram."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_room import Levelfield, make_photos
from PIL import Image

from levelfield.evaluation.statistics.friedman import rank
from levelfield.reports.dataset_ranks import verdict


def test_mean_ranks_of_two_studies_are_printed_and_written(levelfield: Levelfield, compared: Path) -> None:
    make_photos(compared / "other", classes=9, each=5)
    methods = "methods=[lda, normalized_softmax, contrastive, triplet]"
    assert levelfield("-q", "compare", "small.yaml", "data=other", "name=other", methods, "seeds=1").code == 0
    said = levelfield("ranks", "runs/small", "runs/other", "--out", "ranks").printed
    assert "Note: triplet is excluded: it has no finished run on photos." in said
    assert "Mean ranks by recall@1, best first" in said
    assert "With 2 datasets the test is approximate" in said
    found = json.loads((compared / "ranks" / "ranks.json").read_text())
    assert sorted(found["mean_ranks"]) == ["contrastive", "lda", "normalized_softmax"]
    assert sum(found["mean_ranks"].values()) == pytest.approx(1 + 2 + 3)
    assert found["datasets"] == list(found["table"]) == ["photos", "other"]
    with Image.open(compared / "ranks" / "critical-difference.png") as picture:
        assert picture.width > picture.height > 150
    again = json.loads(levelfield("ranks", "runs/small", "runs/other", "--json").printed)
    assert again == found
    other = json.loads(levelfield("ranks", "runs/small", "runs/other", "--json", "--metric", "map@r").printed)
    assert other["metric"] == "map@r"


def test_too_little_to_rank_is_said(levelfield: Levelfield, compared: Path) -> None:
    assert "Ranks need at least 2 datasets, not 1." in levelfield("ranks", "runs/small").error
    assert "is not a study folder" in levelfield("ranks", "runs/small", "runs/nowhere").error
    assert "no finished run with the metric mrr" in levelfield("ranks", "runs/small", "--metric", "mrr").error
    assert "recall@1" in levelfield("ranks", "runs/small", "--metric", "recal@1").error


def test_who_is_told_apart_is_said_only_if_the_methods_differ() -> None:
    clear = rank({str(k): {"a": 0.9, "b": 0.8, "c": 0.7} for k in range(12)})
    assert verdict(clear)[1:] == [
        "Nemenyi: critical difference of mean ranks 0.96, 5% over all pairs.",
        "- a: better than b, c.",
        "- b: better than c.",
    ]
    assert verdict(rank({"x": {"a": 3, "b": 2, "c": 1}, "y": {"a": 1, "b": 2, "c": 3}}))[-1] == (
        "The methods do not differ significantly at 5%."
    )
