"""The table of all pairs: the better row first, and no unsupported claims."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from levelfield.evaluation.statistics import Comparison, Needed
from levelfield.reports.leaderboard import verdicts as comparisons
from levelfield.reports.leaderboard.verdicts import how_compared, pairs_table

SURE = Comparison("a", "b", 0.02, 0.01, 0.03, 4.0, 30.0, 0.0001, 0.0003, 50, (3, 3), True)
TIE = Comparison("a", "c|d", -0.1, -0.2, 0.05, -1.5, 12.0, 0.4, 0.8, 50, (3, 3), True, "seeds", Needed(9, 4, None))
UNTESTED = Comparison("b", "c|d", -0.1, None, None, None, None, None, None, 50, (3, 3), True)


def board(*pairs: Comparison) -> Any:
    return SimpleNamespace(comparisons=list(pairs), metrics=["recall@1"])


def lines_of(*pairs: Comparison) -> list[str]:
    table = pairs_table(board(*pairs))
    assert table is not None
    return table.markdown().splitlines()


def test_each_pair_has_a_line_with_the_better_row_first() -> None:
    lines = lines_of(SURE, TIE, UNTESTED)
    assert lines[2] == "| a > b | 0.020 | +0.010 to +0.030 | 4.00 | 30.0 | < 0.001 | better |  |"
    assert lines[3] == (
        "| c\\|d > a | 0.100 | -0.050 to +0.200 | 1.50 | 12.0 | 0.800 | tie | 9 seeds (95 %: 4 or more) |"
    )
    unknown = " | ".join(["not known"] * 4)
    assert lines[4] == f"| c\\|d > b | 0.100 | {unknown} | tie | not known |"


def test_one_row_has_no_pairs() -> None:
    assert pairs_table(board()) is None


def test_too_many_pairs_leave_the_clearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_PAIRS", 1)
    lines = lines_of(TIE, UNTESTED, SURE)
    assert lines[2].startswith("| a > b |")
    assert lines[-1] == "2 more pairs are in leaderboard.json."


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "Crossed test of recall@1 over 50 test classes and 3 seeds, Holm-corrected over 1 pair, 5 % in all."),
        (
            {"retrained": False},
            "Test of recall@1 over 50 test classes (training was not repeated: this holds only for "
            "these runs), Holm-corrected over 1 pair, 5 % in all.",
        ),
        ({"classes": 4}, "4 test classes: too few for a test (at least 5 are needed)."),
    ],
)
def test_the_test_is_named_in_one_sentence(change: dict[str, Any], told: str) -> None:
    assert how_compared(board(replace(SURE, **change))) == told
