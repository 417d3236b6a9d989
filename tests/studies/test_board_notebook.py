"""A leaderboard in a notebook: one line, an HTML table, DataFrames."""

from __future__ import annotations

from dataclasses import replace

import pytest

from levelfield.errors import UnknownName
from levelfield.evaluation.statistics.comparisons import Comparison
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Cell, Row


@pytest.fixture
def board() -> Leaderboard:
    best = {"recall@1": Cell(0.75, 0.7, 0.8, 0.0125), "nmi": Cell(0.5)}
    plain = {"recall@1": Cell(0.5), "nmi": Cell(0.25)}
    rows = [
        Row("margin <script>", True, [0, 1], best, 7.25, ["extra parameters 1", "dim 64 (128)"], [], {"dim": 64}, "a"),
        Row("lda", False, [0], plain, 0.0, [], [], {"dim": 128}, "b"),
    ]
    compared = [Comparison("margin <script>", "lda", 0.25, 0.2, 0.3, 8.0, 20.0, 0.01, 0.01, 50, (2, 1), True)]
    return Leaderboard("made", ["recall@1", "nmi"], rows, compared, {}, ["lda, seed 1 & 2"])


def test_the_line_says_who_is_first(board: Leaderboard) -> None:
    assert repr(board) == "Leaderboard('made': 2 rows, best by recall@1 'margin <script>' 0.750)"
    assert repr(replace(board, rows=[])) == "Leaderboard('made': no rows)"


def test_the_table_has_the_rows_and_every_text_is_escaped(board: Leaderboard) -> None:
    without_alignment = board._repr_html_().replace(' style="text-align: right"', "")
    assert without_alignment == (
        "<table><caption>made: best first by recall@1</caption><thead><tr><th>#</th><th>method</th><th>recall@1</th>"
        "<th>95 % interval</th><th>sd</th><th>nmi</th><th>sec</th><th>deviations</th></tr></thead><tbody>"
        "<tr><td>1</td><td>margin &lt;script&gt;</td><td>0.750</td><td>0.700-0.800</td><td>0.013</td><td>0.500</td>"
        "<td>7.2</td><td>extra parameters 1; dim 64 (128)</td></tr>"
        "<tr><td>2</td><td>lda</td><td>0.500</td><td></td><td>-</td><td>0.250</td><td>-</td><td>-</td></tr>"
        "</tbody></table><p>Missing: lda, seed 1 &amp; 2</p>"
    )


def test_pandas_gets_rows_and_comparisons(board: Leaderboard) -> None:
    pytest.importorskip("pandas")
    rows = board.to_pandas()
    assert rows.index.tolist() == ["margin <script>", "lda"]
    assert rows["recall@1"].tolist() == [0.75, 0.5]
    assert rows.loc["margin <script>", "recall@1 low"] == 0.7
    assert rows["dim"].tolist() == [64, 128]
    assert rows["deviations"].tolist() == ["extra parameters 1; dim 64 (128)", ""]
    pairs = board.to_pandas("comparisons")
    assert pairs[["first", "second", "difference"]].values.tolist() == [["margin <script>", "lda", 0.25]]
    with pytest.raises(UnknownName, match="Did you mean 'comparisons'"):
        board.to_pandas("comparison")
