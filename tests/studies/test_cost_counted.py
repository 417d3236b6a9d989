"""Counted cost of a study without its data or weights."""

from __future__ import annotations

from typing import Any

import pytest

from levelfield.studies import parse_study
from levelfield.studies.planning.cost_counted import count, countable, total

CONDITIONS = {"backbone": "resnet18", "cut": "tuned", "cache": False, "image": 64, "dim": 64, "batch": "8x4"}


def counted(method: Any = "margin", protocol: str = "standard", data: str = "cub", **conditions: Any) -> Any:
    content = {"data": data, "protocol": protocol, "methods": [method], "seeds": 1, "metrics": ["recall@1"]}
    return count(parse_study({**content, "conditions": {**CONDITIONS, "steps": 1000, **conditions}}))[1]


# multiplications at 224 pixels, as published: He et al. 2016 (resnet50 with strides in the 3x3), Ioffe and Szegedy 2015
@pytest.mark.parametrize(("backbone", "known"), [("resnet18", 1.82e9), ("resnet50", 4.11e9), ("bninception", 2.03e9)])
def test_operations_of_an_image_are_the_known_ones(backbone: str, known: float) -> None:
    [row] = counted("untrained", backbone=backbone, image=224)
    assert row.rows == 5_924
    assert row.operations / row.rows == pytest.approx(2 * known, rel=0.02)


def test_a_trained_image_costs_three_passes_and_a_finished_run_keeps_its_model_and_no_checkpoint() -> None:
    [still], [trained] = counted("untrained"), counted()
    assert (trained.images, trained.rows) == (32_000, 32_000 + 5_924)
    assert trained.operations / still.operations == pytest.approx((3 * 32_000 + 5_924) / 5_924)
    model = still.bytes - 4 * 5_924 * 64
    assert model == pytest.approx(4 * 11.2e6, rel=0.02)  # resnet18 without its classifier, and the head
    assert trained.bytes == still.bytes


def test_looks_for_selection_and_monitoring_are_counted() -> None:
    looks = 10  # of 1000 steps, one each 100
    [watched] = counted(selection="best_on_test")
    assert watched.rows == 32_000 + 5_924 + (looks + 1) * (5_000 + 5_924)  # also before the first step
    separated, joined = counted(protocol="mlrc", select="map@r", selection="validation")
    assert (separated.runs, joined.runs) == (4, 1)
    assert separated.rows == 4 * (32_000 + 5_924 + looks * 1_466)
    assert total([separated, joined]).images == 4 * 32_000
    assert (joined.operations, joined.bytes) == (0, 4 * 5_924 * 4 * 64)  # the embeddings of four folds side by side


def test_what_differs_from_the_conditions_is_said_without_data() -> None:
    [row] = counted({"proxy_anchor": {"lr": 0.1, "conditions": {"dim": 32, "optimiser": "sgd"}}})
    assert row.deviations[:2] == ("dim 32 (64)", "optimiser sgd (adamw)")
    assert {"extra parameters 3,200", "lr 0.1 (0.003)"} <= set(row.deviations)  # 100 classes of 32 numbers
    [row] = counted("untrained")
    assert "dim 512 (64)" in row.deviations
    assert counted({"dreml": {"members": 3, "meta_classes": 12}})[1].deviations == ("members 3 (1)",)
    separated, joined = counted({"drml": {"objective": "triplet"}}, protocol="mlrc")
    assert joined.deviations == ()  # four folds are what everybody has
    assert any(text.startswith("extra parameters") for text in separated.deviations)


def test_only_benchmarks_can_be_counted() -> None:
    for name, known in (("cub", True), ("emoji", False), ("a folder", False)):
        assert countable(parse_study({"data": name, "methods": ["margin"]})) == known
