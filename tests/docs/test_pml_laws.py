"""The page on losses of pytorch-metric-learning matches the results of the laws."""

from __future__ import annotations

from types import ModuleType

import pages
import pytest

pytest.importorskip("pytorch_metric_learning")
PAGE = (pages.ROOT / "docs" / "own-loss.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pml() -> ModuleType:
    return pages.script("pml")


@pytest.mark.parametrize("name", ["CircleLoss", "NCALoss", "NPairsLoss", "TripletMarginLoss"])
def test_what_breaks_stands_on_the_page(pml: ModuleType, name: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and f"`{name}`" in line]
    found = {verdict.law.replace("_", " ") for verdict in pml.broken(name)}
    assert {row.split("|")[1].strip() for row in rows} == found, "run `make docs`"


def test_every_loss_is_on_the_page(pml: ModuleType) -> None:
    assert not [name for name in pml.names() if f"`{name}`" not in PAGE], "run `make docs`"
