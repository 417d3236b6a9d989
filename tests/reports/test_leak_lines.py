"""Notes of the leaderboard about its data: how queries were searched, and leaks across the split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import class_means, planned, write_run

from levelfield.data.checks.leaks import Leaks, Pair
from levelfield.reports.leaderboard.tables import as_markdown, explanation
from levelfield.reports.split_leaks import Crossing, crossings, leak_lines, with_leaks
from levelfield.studies.leaderboard.board import Leaderboard, gather


def board_with(folder: Path, definition: dict[str, Any], metrics: tuple[str, ...] = ("recall@1",)) -> Leaderboard:
    [run] = planned(["lda"], seeds=1)
    write_run(run, folder, class_means(0.5), definition=definition)
    return gather("made", [run], folder, metrics)


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({}, "200 queries against 200 images, the query itself left out; cosine distance; ties: expected"),
        (
            {"self_excluded": "none", "queries": 14_218, "gallery": 12_612, "lone": "miss"},
            "14,218 queries (missed where the gallery has no image of their class) against 12,612 images, none of "
            "which is a query; cosine distance",
        ),
        ({"self_excluded": "none", "clusterer": "lloyd100x3-seed0"}, "200 images, clustered by cosine distance."),
    ],
)
def test_the_query_is_said_to_be_left_out_only_where_it_was(
    tmp_path: Path, definition: dict[str, Any], said: str
) -> None:
    lines = "\n".join(explanation(board_with(tmp_path, definition)))
    assert said in lines
    assert ("left out" in lines) == (not definition)


def test_nothing_is_said_of_the_embedded_data(tmp_path: Path) -> None:
    board = board_with(tmp_path, {})
    found = crossings(board, planned(["lda"], seeds=1), tmp_path)
    assert found == []
    assert "leaks" not in with_leaks(board, found, tmp_path).facts
    assert "split" not in as_markdown(board)


PAIR = Pair(Path("a/1.png"), Path("b/2.png"), "a", "b", 3)


@pytest.mark.parametrize(
    ("leaks", "said"),
    [
        (Leaks((), (), None, False, 5, 5), "No class and no file is on both sides of the split."),
        (Leaks(("a",), (), None, False, 5, 5), "LEAK: 1 class (a) is on both sides of the split."),
        (
            Leaks((), (PAIR,), None, False, 5, 81),
            "LEAK: 1 of 81 test images (byte for byte) is on both sides of the split.",
        ),
        (
            Leaks(tuple("abcdefg"), (PAIR,), (), False, 5, 5),
            "LEAK: 7 classes (a, b, c, d, e and 2 more) and 1 of 5 test images (byte for byte) are on both sides of "
            "the split. No test image looks like a training image.",
        ),
        (
            Leaks(("a", "b"), (), (PAIR, PAIR), True, 5, 5),
            "The same 2 classes train and test by design (protocol 'closed'). No file is on both sides of the split. "
            "2 test images look like a training image.",
        ),
    ],
)
def test_leaks_in_one_line(tmp_path: Path, leaks: Leaks, said: str) -> None:
    board = with_leaks(board_with(tmp_path, {}), [Crossing("emoji", {}, leaks)], tmp_path)
    assert leak_lines(board) == [said]
    assert said in as_markdown(board)
    assert Leaks.from_data(leaks.as_data()) == leaks
