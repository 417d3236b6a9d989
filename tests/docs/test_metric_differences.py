"""The page on metrics shows the current measurements."""

from __future__ import annotations

import re
from types import ModuleType

import pages
import pytest

pytest.importorskip("pytorch_metric_learning")
PAGE = (pages.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"\d+\.\d\d")
# Numbers that are wrong because of rounding differ between machines; more than this and the page is out of date.
SLACK = 0.05


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return pages.script("differences")


def test_every_difference_stands_on_the_page_as_measured(script: ModuleType) -> None:
    shown = PAGE.partition("<!-- differences -->")[2].partition("<!-- end of differences -->")[0].strip().splitlines()
    measured = script.table().splitlines()
    assert [FIGURE.sub("#", line) for line in shown] == [FIGURE.sub("#", line) for line in measured], (
        "run `python tools/differences.py`"
    )
    for one, other in zip(shown, measured, strict=True):
        figures = [[float(number) for number in FIGURE.findall(line)] for line in (one, other)]
        assert figures[0] == pytest.approx(figures[1], abs=SLACK), "run `python tools/differences.py`"


def test_what_is_called_a_difference_is_one(script: ModuleType) -> None:
    assert not [line for line in script.differences() if line.theirs.split()[0] == line.ours.split()[0]]
