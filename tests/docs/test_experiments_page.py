"""The page on experiments shows the studies as they are: every method with its figure, and the pictures."""

from __future__ import annotations

import re

import pages
import pytest

from levelfield.studies import plan, read_study

PAGE = (pages.ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("study", ["rho", "switch", "batching", "mixup", "curves"])
def test_every_row_of_a_study_stands_on_the_page(study: str) -> None:
    described = read_study(pages.ROOT / "studies" / f"{study}.yaml")
    part = PAGE.partition(f"<!-- {study} -->")[2].partition(f"<!-- end of {study} -->")[0]
    rows = {line.split("|")[1].strip() for line in part.splitlines() if re.match(r"\| .* \| 0\.\d", line)}
    assert rows == {run.row for run in plan(described)}, "run the study, then `python docs/experiments.py`"
    for figure in described.figures:
        assert f"(figures/{study}-{figure}.png)" in part
        assert (pages.ROOT / "docs" / "figures" / f"{study}-{figure}.png").stat().st_size < 200_000
