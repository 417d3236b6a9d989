"""The leaderboard for a spreadsheet or a program."""

from __future__ import annotations

import csv
import io

from levelfield.reports.leaderboard import cells, costs
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Row


def as_csv(board: Leaderboard) -> str:
    """One line per row: mean, interval and spread of every metric, cost, best on test, deviations, varied values."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    varied = sorted({key for row in board.rows for key in row.variation})
    named = [f"{cells.heading(metric)} {part}" for metric in board.metrics for part in cells.PARTS]
    columns = ("best_on_test", "best_on_test_gap", "deviations", "warnings")
    writer.writerow(["rank", "method", *named, "seeds", *costs.COLUMNS, *columns, *varied])
    for rank, row in enumerate(board.rows, 1):
        figures = [value for metric in board.metrics for value in cells.numbers(row.cells[metric])]
        texts = ["; ".join(row.deviations), "; ".join(row.warnings)]
        values = [row.variation.get(key, "") for key in varied]
        cost = [len(row.seeds), *costs.numbers(row)]
        writer.writerow([rank, row.label, *figures, *cost, *_best_on_test(row), *texts, *values])
    return table.getvalue()


def _best_on_test(row: Row) -> list[str]:
    found = row.best_on_test
    return ["", ""] if found is None else [f"{found.best:.6f}", f"{found.gap:.6f}"]
