"""A leaderboard in a notebook: one line, an HTML table, and pandas tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from levelfield.errors import unknown
from levelfield.table import Column, Table, frame, numbers

if TYPE_CHECKING:
    from levelfield.studies.leaderboard.board import Leaderboard

TABLES = ("rows", "comparisons")


def line(board: Leaderboard) -> str:
    """The study and its best row, in one line."""
    if not board.rows:
        return f"Leaderboard({board.study!r}: no rows)"
    first, best = board.metrics[0], board.rows[0]
    rows = f"{len(board.rows)} row{'' if len(board.rows) == 1 else 's'}"
    return f"Leaderboard({board.study!r}: {rows}, best by {first} {best.label!r} {best.cells[first].mean:.3f})"


def html(board: Leaderboard) -> str:
    """The rows as an HTML table, best first; the full leaderboard is in the study's folder."""
    first, *others = board.metrics
    headings = numbers(first, "95 % interval", "sd", *others, "sec")
    rows: list[list[Any]] = []
    for rank, row in enumerate(board.rows, 1):
        cell = row.cells[first]
        interval = "" if cell.low is None or cell.high is None else f"{cell.low:.3f}-{cell.high:.3f}"
        spread = None if cell.spread is None else f"{cell.spread:.3f}"
        means = [f"{row.cells[metric].mean:.3f}" for metric in others]
        seconds = f"{row.seconds:.1f}" if row.trained else None
        deviations = "; ".join(row.deviations) or None
        rows.append([rank, row.label, f"{cell.mean:.3f}", interval, spread, *means, seconds, deviations])
    missing = [f"Missing: {text}" for text in board.missing]
    columns: list[Column | str] = [*numbers("#"), "method", *headings, "deviations"]
    return Table(columns, rows, f"{board.study}: best first by {first}", missing).html()


def table(board: Leaderboard, of: str) -> Any:
    """A DataFrame of the rows, with the columns of leaderboard.csv, or of the comparisons, one line per pair."""
    if of not in TABLES:
        raise unknown("table of a leaderboard", of, TABLES)
    if of == "comparisons":
        listed = [asdict(comparison) for comparison in board.comparisons]
        return frame({key: [one[key] for one in listed] for key in listed[0]} if listed else {})
    columns: dict[str, list[Any]] = {"method": [row.label for row in board.rows]}
    for metric in board.metrics:
        cells = [row.cells[metric] for row in board.rows]
        columns[metric] = [cell.mean for cell in cells]
        for name, key in (("low", "low"), ("high", "high"), ("sd", "spread")):
            columns[f"{metric} {name}"] = [getattr(cell, key) for cell in cells]
    for key in ("trained", "tied_with_best", "seconds", "peak_bytes", "first_run"):
        columns[key] = [getattr(row, key) for row in board.rows]
    columns["seeds"] = [len(row.seeds) for row in board.rows]
    columns["deviations"] = ["; ".join(row.deviations) for row in board.rows]
    for key in dict.fromkeys(key for row in board.rows for key in row.variation):
        columns[key] = [row.variation.get(key) for row in board.rows]
    return frame(columns, index="method")
