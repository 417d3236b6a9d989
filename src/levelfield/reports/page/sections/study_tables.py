"""The tables at the end of the page: conditions, methods, ledger, signatures, costs and what else a study has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from levelfield.reports.compact_scores import compact_notes, compact_tables
from levelfield.reports.leaderboard import cells
from levelfield.reports.leaderboard.cells import UNKNOWN
from levelfield.reports.published_comparison import published_cells
from levelfield.reports.robustness import Robustness, robustness_table
from levelfield.reports.search_results import TuningTable
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.compact import CompactTable
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study
from levelfield.table import Table
from levelfield.training.conditions import Conditions


def tables_of(
    study: Study,
    board: Leaderboard,
    runs: Sequence[PlannedRun],
    robust: Robustness | None,
    tuning: TuningTable | None,
    compact: CompactTable | None = None,
) -> list[Table]:
    """All tables that have a row."""
    tables = [
        _conditions(study),
        _methods(runs),
        _ledger(board),
        _costs(board),
        _signatures(board),
        *([_corruptions(robust)] if robust else []),
        *(_compact(compact) if compact else []),
        _claims(board),
        _published(board),
        *([_tuning(tuning)] if tuning else []),
    ]
    return [table for table in tables if table.rows]


def _conditions(study: Study) -> Table:
    plain = {
        "data": _text(study.data.model_dump(mode="json", exclude_defaults=True)),
        "protocol": _text(study.protocol.model_dump(mode="json")),
        "seeds": ", ".join(map(str, study.seeds)),
        **({"vary": _text(study.vary)} if study.vary else {}),
    }
    rows = [[key, value, ""] for key, value in plain.items()]
    rows += [
        [key, _text(getattr(study.conditions, key)), about.description or ""]
        for key, about in Conditions.model_fields.items()
    ]
    return Table(["key", "value", ""], rows, "Conditions", ["Equal for every method, except where the ledger says so."])


def _methods(runs: Sequence[PlannedRun]) -> Table:
    specs = {run.label: run.spec.method for run in reversed(runs)}
    rows = [
        [label, specs[label].name, _text(specs[label].settings)] for label in dict.fromkeys(run.label for run in runs)
    ]
    return Table(["row", "method", "settings"], rows, "Methods", ["The settings that the study gives."])


def _ledger(board: Leaderboard) -> Table:
    rows = [[row.label, text] for row in board.rows for text in row.deviations]
    note = "Every point in which a method departs from the conditions, checked against what happened."
    return Table(["row", "deviation (the common value in brackets)"], rows, "Ledger", [note])


def _costs(board: Leaderboard) -> Table:
    rows = [[row.label, *cells.costs(row), f"{row.planning:.1f}"] for row in board.rows if row.trained]
    columns = ["row", *cells.COST_HEADINGS, "of it planning batches, s"]
    return Table(columns, rows, "Cost", ["Per run, mean over seeds.", *cells.front_lines(board)])


def _signatures(board: Leaderboard) -> Table:
    rows = [
        [test_set, metric, "|".join(f"{key}:{value}" for key, value in definition.items() if key != "metric")]
        for test_set, definitions in board.signatures.items()
        for metric, definition in definitions.items()
    ]
    note = "How each score was computed. Scores with different definitions never share a column."
    return Table(["test set", "metric", "definition"], rows, "Signatures", [note])


def _corruptions(drops: Robustness) -> Table:
    table = robustness_table(drops)
    notes = [f"Drop in {drops.metric}, in percentage points. One draw per image, the same for every run."]
    notes += [f"Missing: {text}." for text in drops.missing]
    return Table(["row", "clean", *drops.corruptions, "mean drop"], table.rows, "Corrupted images", notes)


def _compact(scores: CompactTable) -> list[Table]:
    """One table for each size of embedding."""
    notes = [f"{scores.metric}, with its interval.", *compact_notes(scores)]
    tables = compact_tables(scores)
    return [
        replace(
            table,
            columns=["row", *table.columns[1:]],
            title="Compact embeddings" + (f", {dim} dimensions" if len(tables) > 1 else ""),
            notes=notes,
        )
        for dim, table in tables.items()
    ]


def _claims(board: Leaderboard) -> Table:
    rows = [
        [
            one.claim,
            one.verdict,
            one.metric,
            _number(one.difference),
            f"{one.low:+.3f} to {one.high:+.3f}" if one.low is not None and one.high is not None else UNKNOWN,
            "; ".join(filter(None, (one.note, one.source))),
        ]
        for one in board.claims
    ]
    columns = ["claim", "verdict", "metric", "difference", "95 % interval", "source and note"]
    return Table(columns, rows, "Claims", ["Made before the runs; Holm-corrected over the claims."])


def _published(board: Leaderboard) -> Table:
    rows = [
        [entry["row"], entry["metric"], *published_cells(entry), entry["note"]]
        for entry in board.facts.get("published", [])
    ]
    columns = ["row", "metric", "source", "reported", "ours", "difference", "note"]
    note = "Per cent. The reported number is the one whose setting is closest to ours."
    return Table(columns, rows, "Published beside ours", [note])


def _tuning(tuning: TuningTable) -> Table:
    rows = [
        [row.label, _number(row.default), _number(row.best), _number(row.gain), str(row.trials), f"{row.seconds:.0f}"]
        for row in tuning.rows
    ]
    record = tuning.record
    note = f"{record.budget}, sampler {record.sampler}, {record.metric} on {record.judged_by}."
    return Table(["row", "default", "best", "gain", "trials", "seconds"], rows, "Tuning", [note])


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _text(value: Any) -> str:
    """A setting as one line.

    >>> _text({"margin": 0.2}), _text("cosine"), _text(None)
    ('margin: 0.2', 'cosine', '-')
    """
    if value is None or value in ({}, [], ()):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
