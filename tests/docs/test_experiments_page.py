"""The page on experiments matches the studies: every method with its score, and the pictures."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pages
import pytest

from levelfield.studies import plan, read_study
from levelfield.studies.leaderboard.rows import Cell, Row

PAGE = (pages.ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "study", ["rho", "batching", "roth2020-fig8-mini", "roth2020-fig13-mini", "seidenschwarz2021-fig7-mini"]
)
def test_every_row_of_a_study_stands_on_the_page(study: str) -> None:
    name, _, mini = study.replace("-", "/", 1).partition("-")
    described = read_study(name, mini=bool(mini))
    part = PAGE.partition(f"<!-- {study} -->")[2].partition(f"<!-- end of {study} -->")[0]
    rows = {line.split("|")[1].strip() for line in part.splitlines() if re.match(r"\| .* \| 0\.\d", line)}
    assert rows == {run.row for run in plan(described)}, "run the study, then `python tools/experiments.py`"
    for figure in described.figures:
        assert f"(figures/{study}-{figure}.png)" in part
        assert (pages.ROOT / "docs" / "figures" / f"{study}-{figure}.png").stat().st_size < 200_000


def test_the_page_shows_what_the_logs_hold() -> None:
    """The page is made from the logs in the repository: nothing on it was typed."""
    script = pages.script("experiments")
    for log in sorted(script.LOGS.glob("*.json")):
        assert script.written(log.stem, json.loads(log.read_text(encoding="utf-8"))) in PAGE, log.stem


def test_a_row_without_an_interval_or_a_spread_is_written_as_such() -> None:
    row = Row("margin", True, [0], {"recall@1": Cell(0.5)}, 1.0, [], [], {}, "")
    script = pages.script("experiments")
    logged = script.logged(SimpleNamespace(row=row, rho=None, cell=row.cells.__getitem__), ["recall@1"])
    assert "| margin | 0.500 | not known | - | - |" in script.table([logged], ["recall@1"])
