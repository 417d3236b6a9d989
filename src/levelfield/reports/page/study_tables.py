"""The end of the page: training curves, and tables of conditions, methods, ledger, costs and what else a study has."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.files.reading import read_bytes
from levelfield.reports.compact_scores import compact_notes, compact_tables
from levelfield.reports.leaderboard import cells
from levelfield.reports.page.content import Data
from levelfield.reports.published_comparison import published_table
from levelfield.reports.report import Report
from levelfield.reports.search_results import tried_table
from levelfield.studies import Leaderboard, PlannedRun, Study
from levelfield.studies.runs.folder.store import read_result
from levelfield.table import Table
from levelfield.training.conditions import Conditions
from levelfield.training.log import LOG, MAX_LOG_BYTES

LONGEST = 200  # points of one curve
_ALL, _SHORTEST = 60_000, 20  # points of all curves; a study with hundreds of runs has shorter ones
_NAMES = ("loss", "spread", "rho")

Point = tuple[float, float]


def tables_of(report: Report, study: Study, runs: Sequence[PlannedRun]) -> list[Table]:
    """All tables that have a row."""
    board = report.leaderboard
    deviations = [[row.label, text] for row in board.rows for text in row.deviations]
    checked = "Every point in which a method departs from the conditions, checked against what happened."
    costs = [[row.label, *cells.costs(row), f"{row.planning:.1f}"] for row in board.rows if row.trained]
    of_costs = ["row", *cells.COST_HEADINGS, "of it planning batches, s"]
    compact = []
    if report.compact:  # one table for each size of embedding
        sizes = compact_tables(report.compact)
        notes = [f"{report.compact.metric}, with its interval.", *compact_notes(report.compact)]
        for dim, table in sizes.items():
            title = "Compact embeddings" + (f", {dim} dimensions" if len(sizes) > 1 else "")
            compact.append(replace(table, title=title, notes=notes))
    tables = [
        _conditions(study),
        _methods(runs),
        Table(["row", "deviation (the common value in brackets)"], deviations, "Ledger", [checked]),
        Table(of_costs, costs, "Cost", ["Per run, mean over seeds.", *cells.front_lines(board)]),
        _signatures(board),
        *([report.robustness.table()] if report.robustness else []),
        *compact,
        _claims(board),
        published_table(board),
        tried_table(board),
        *([report.tuning.table()] if report.tuning else []),
    ]
    return [table for table in tables if table and table.rows]


def _conditions(study: Study) -> Table:
    chosen = {
        "data": study.data.model_dump(mode="json", exclude_defaults=True),
        "protocol": study.protocol.model_dump(mode="json"),
        "seeds": ", ".join(map(str, study.seeds)),
        **({"vary": study.vary} if study.vary else {}),
    }
    rows = [[key, _text(value), ""] for key, value in chosen.items()]
    rows += [
        [key, _text(getattr(study.conditions, key)), about.description or ""]
        for key, about in Conditions.model_fields.items()
    ]
    return Table(["key", "value", ""], rows, "Conditions", ["Equal for every method, except where the ledger says so."])


def _methods(runs: Sequence[PlannedRun]) -> Table:
    specs: dict[str, Any] = {}
    for run in runs:
        specs.setdefault(run.label, run.spec.method)
    rows = [[label, method.name, _text(method.settings)] for label, method in specs.items()]
    return Table(["row", "method", "settings"], rows, "Methods", ["The settings that the study gives."])


def _signatures(board: Leaderboard) -> Table:
    rows = [
        [test_set, metric, "|".join(f"{key}:{value}" for key, value in definition.items() if key != "metric")]
        for test_set, definitions in board.signatures.items()
        for metric, definition in definitions.items()
    ]
    note = "How each score was computed. Scores with different definitions never share a column."
    return Table(["test set", "metric", "definition"], rows, "Signatures", [note])


def _claims(board: Leaderboard) -> Table:
    rows = []
    for claim in board.claims:
        difference = None if claim.difference is None else f"{claim.difference:.3f}"
        interval = None if claim.low is None else f"{claim.low:+.3f} to {claim.high:+.3f}"
        notes = "; ".join(filter(None, (claim.note, claim.source)))
        rows.append([claim.claim, claim.verdict, claim.metric, difference, interval, notes])
    columns = ["claim", "verdict", "metric", "difference", "95 % interval", "source and note"]
    return Table(columns, rows, "Claims", ["Made before the runs; Holm-corrected over the claims."])


def _text(value: Any) -> str:
    """A setting as one line.

    >>> _text({"margin": 0.2}), _text("cosine"), _text(None)
    ('margin: 0.2', 'cosine', '-')
    """
    if value is None or value in ({}, [], ()):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(entry)}" for key, entry in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def curves_of(board: Leaderboard, runs: Sequence[PlannedRun], folder: Path) -> list[Data]:
    """What every finished run that trained recorded as (step, value), in the order of the rows."""
    rows = {row.label: number for number, row in enumerate(board.rows) if row.trained}
    trained = [run for run in runs if run.row in rows]
    most = max(_SHORTEST, min(LONGEST, _ALL // max(1, len(trained) * len(_NAMES))))
    curves = []
    for run in trained:
        run_folder = run.folder(folder)
        result = read_result(run_folder) if run_folder.is_dir() else None
        if result is not None:
            entries = _entries(run_folder / LOG)
            curve: Data = {"row": rows[run.row], "seed": run.spec.seed}
            curve |= {name: thinned(_points(entries, name), most) for name in _NAMES}
            curve["validation"] = thinned(_points(result.summary.get("history") or [], "value"), most)
            curves.append({**curve, "chosen_step": result.summary.get("best_step")})
    return sorted(curves, key=lambda curve: (curve["row"], curve["seed"]))


def _entries(path: Path) -> list[Data]:
    """The lines of a log, without one that a crash cut short; a missing log has none."""
    text = read_bytes(path, most=MAX_LOG_BYTES).decode("utf-8", "replace") if path.is_file() else ""
    entries = []
    for line in text.splitlines():
        with suppress(ValueError):
            entries.append(json.loads(line))
    return [entry for entry in entries if isinstance(entry, dict)]


def _points(entries: Iterable[Mapping[str, Any]], name: str) -> list[Point]:
    """The (step, value) of the entries that have a finite value of this name."""
    pairs = [(entry["step"], entry[name]) for entry in entries if entry.get(name) is not None]
    return [(float(step), float(f"{value:.5g}")) for step, value in pairs if math.isfinite(value)]


def thinned(points: list[Point], most: int) -> list[Point]:
    """At most `most` points, evenly chosen, the first and the last among them.

    >>> thinned([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 2)
    [(0.0, 1.0), (2.0, 3.0)]
    """
    if len(points) <= most:
        return points
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]
