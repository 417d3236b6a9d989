"""A study that really trains, with its page: models are explained, validation classes choose the threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looked_at import array, content_of, draw, page_of

import levelfield
from levelfield.studies.specification.locations import images_in

SMALL = {"backbone": "test_resnet", "weights": "random", "image": 32, "dim": 8, "steps": 2, "batch": "3x2"}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room")
    draw(folder / "photos", np.repeat(np.arange(14), 4))
    return folder


def test_validation_classes_choose_the_threshold_and_regions_are_exact(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(room / "cache"))
    study = {
        "name": "whole",
        "data": str(room / "photos"),
        "protocol": {"name": "standard", "validation": 0.4},
        "methods": ["contrastive", "untrained"],
        "seeds": 1,
        "conditions": {**SMALL, "select": "recall@1", "validate_every": 1},
        "metrics": ["recall@1"],
    }
    report = levelfield.compare(study, out=room / "runs")
    assert report.page == room / "runs" / "whole" / "report.html"
    page = content_of(report.page)
    [test] = page["tests"]
    assert {method["threshold"]["source"] for method in test["methods"]} == {"validation classes"}
    assert {one["method"] for one in test["why"]["maps"]} == {0, 1}
    assert all(one["exact"] for one in test["why"]["maps"])
    for row in page["rows"]:
        right = array(test["methods"][row["embedded"]]["right"])
        assert (right[right < 2] == 1).mean() == pytest.approx(row["cells"]["recall@1"]["mean"])
    [curve] = page["curves"]
    assert curve["validation"]
    assert curve["chosen_step"] in [point[0] for point in curve["validation"]]
    assert levelfield.compare({**study, "name": "bare"}, out=room / "runs", page=False).page is None
    (room / "photos").rename(room / "moved")
    assert len(page_of(report.page.parent).tests[0].lost) == test["count"]
    with images_in(room / "moved"):
        assert page_of(report.page.parent).tests[0].lost == []
