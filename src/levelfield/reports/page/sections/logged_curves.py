"""Training curves of the page, from the logs and histories of the runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from levelfield.files.reading import read_bytes
from levelfield.reports.page.content import Curve, Point
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.spec import PlannedRun
from levelfield.training.log import MOST

LOG = "log.jsonl"
LONGEST = 200  # points of one curve
_ALL, _SHORTEST = 60_000, 20  # points of all curves; a study with hundreds of runs has shorter ones
_NAMES = ("loss", "spread", "rho")


def curves_of(board: Leaderboard, runs: Sequence[PlannedRun], folder: Path) -> list[Curve]:
    """The curves of every finished run that trained, in the order of the rows."""
    row_numbers = {row.label: number for number, row in enumerate(board.rows)}
    own = [run for run in runs if run.row in row_numbers and board.rows[row_numbers[run.row]].trained]
    points = max(_SHORTEST, min(LONGEST, _ALL // max(1, len(own) * len(_NAMES))))
    curves = [_curve(row_numbers[run.row], run, run.folder(folder), points) for run in own]
    return sorted((curve for curve in curves if curve is not None), key=lambda curve: (curve.row, curve.seed))


def _curve(row: int, run: PlannedRun, folder: Path, points: int) -> Curve | None:
    result = read_result(folder) if folder.is_dir() else None
    if result is None:
        return None
    entries = list(_entries(folder / LOG))
    loss, spread, rho = (thinned(_points(entries, name), points) for name in _NAMES)
    history = thinned(_points(result.summary.get("history") or [], "value"), points)
    return Curve(row, run.spec.seed, loss, spread, rho, history, result.summary.get("best_step"))


def _entries(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a log; a line that a crash cut short is left out, and a missing log has none."""
    text = read_bytes(path, most=MOST).decode("utf-8", "replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def _points(entries: Iterable[dict[str, Any]], name: str) -> list[Point]:
    pairs = [(entry.get("step"), entry.get(name)) for entry in entries]
    return [
        (float(step), float(f"{value:.5g}"))
        for step, value in pairs
        if isinstance(step, int | float) and isinstance(value, int | float) and math.isfinite(value)
    ]


def thinned(points: list[Point], most: int) -> list[Point]:
    """At most `most` points, evenly chosen, the first and the last among them.

    >>> thinned([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 2)
    [(0.0, 1.0), (2.0, 3.0)]
    """
    if len(points) <= most:
        return points
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]
