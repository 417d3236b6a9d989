"""The table of all pairs: the better row first, both tests corrected, nothing claimed that is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from levelfield.reports.comparisons import comparisons_markdown
from levelfield.studies.leaderboard import _corrected
from levelfield.studies.statistics import Comparison

PAIRS = [
    Comparison("a", "b", 0.02, 0.01, 0.03, 0.0001, 0.0001, 1000, p_seeds=0.01, seeds=3),
    Comparison("a", "c|d", -0.1, -0.2, 0.05, 0.4, 0.4, 1000, p_seeds=0.03, seeds=9),
    Comparison("b", "c|d", -0.1, -0.2, -0.05, 0.02, 0.02, 1000),
]


def board(comparisons: list[Comparison]) -> Any:
    return SimpleNamespace(comparisons=comparisons)


def test_each_pair_has_a_line_with_the_better_row_first() -> None:
    lines = comparisons_markdown(board(_corrected(PAIRS)))
    assert lines[3] == "| a > b | 0.020 | +0.010 to +0.030 | < 0.001 | 0.020 | 3 |"
    assert lines[4] == "| c\\|d > a | 0.100 | -0.050 to +0.200 | 0.400 | 0.030 | 9 |"
    assert lines[5] == "| c\\|d > b | 0.100 | +0.050 to +0.200 | 0.040 | - | - |"


def test_what_is_not_known_stays_out_of_the_correction() -> None:
    assert [one.adjusted_seeds for one in _corrected(PAIRS)] == [0.02, 0.03, None]


def test_one_row_has_no_pairs() -> None:
    assert comparisons_markdown(board([])) == []
