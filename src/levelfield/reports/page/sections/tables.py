"""The tables at the end of the page: conditions, methods, ledger, signatures, costs and what else a study has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from levelfield.reports.compact import by_size, headings, notes, with_interval
from levelfield.reports.leaderboard import costs
from levelfield.reports.page.data import Table
from levelfield.reports.robustness import Robustness
from levelfield.reports.tuning import TuningTable
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.compact import CompactTable
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study
from levelfield.training.conditions import Conditions

_UNKNOWN = "not known"


def tables_of(
    study: Study,
    board: Leaderboard,
    runs: Sequence[PlannedRun],
    robust: Robustness | None,
    tuning: TuningTable | None,
    compact: CompactTable | None = None,
) -> list[Table]:
    """All tables that have a row."""
    made = [
        _conditions(study),
        _methods(runs),
        _ledger(board),
        _costs(board),
        _signatures(board),
        _corruptions(robust),
        *_compact(compact),
        _claims(board),
        _published(board),
        _tuning(tuning),
    ]
    return [table for table in made if table.rows]


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
    return Table("Conditions", "Equal for every method, except where the ledger says so.", ["key", "value", ""], rows)


def _methods(runs: Sequence[PlannedRun]) -> Table:
    specs = {run.label: run.spec.method for run in reversed(runs)}
    ordered = dict.fromkeys(run.label for run in runs)
    rows = [[label, specs[label].name, _text(specs[label].settings)] for label in ordered]
    return Table("Methods", "The settings that the study gives.", ["row", "method", "settings"], rows)


def _ledger(board: Leaderboard) -> Table:
    rows = [[row.label, text] for row in board.rows for text in row.deviations]
    note = "Every point in which a method departs from the conditions, checked against what happened."
    return Table("Ledger", note, ["row", "deviation (the common value in brackets)"], rows)


def _costs(board: Leaderboard) -> Table:
    rows = [[row.label, *costs.fields(row), f"{row.planning:.1f}"] for row in board.rows if row.trained]
    note = " ".join(["Per run, mean over seeds.", *costs.front_lines(board)])
    return Table("Cost", note, ["row", *costs.HEADINGS, "of it planning batches, s"], rows)


def _signatures(board: Leaderboard) -> Table:
    rows = [
        [test_set, metric, "|".join(f"{key}:{value}" for key, value in definition.items() if key != "metric")]
        for test_set, made in board.signatures.items()
        for metric, definition in made.items()
    ]
    note = "How each score was computed. Scores with different definitions never share a column."
    return Table("Signatures", note, ["test set", "metric", "definition"], rows)


def _corruptions(found: Robustness | None) -> Table:
    if found is None:
        return Table("Corrupted images", "", [], [])
    rows = [
        [row.label, f"{100 * row.clean:.1f}", *(f"{100 * drop:.1f}" for drop in (*row.drops.values(), row.mean_drop))]
        for row in found.rows
    ]
    note = f"Drop in {found.metric}, in percentage points. One draw per image, the same for every run."
    note += "".join(f" Missing: {text}." for text in found.missing)
    return Table("Corrupted images", note, ["row", "clean", *found.corruptions, "mean drop"], rows)


def _compact(found: CompactTable | None) -> list[Table]:
    """One table for each size of embedding."""
    if found is None:
        return []
    note = " ".join([f"{found.metric}, with its interval.", *notes(found, intervals=True)])
    parts = by_size(found)
    return [
        Table(
            "Compact embeddings" + (f", {part.dim} dimensions" if len(parts) > 1 else ""),
            note,
            ["row", *headings(part)],
            [[row.label, *map(with_interval, part.cells(row))] for row in part.rows],
        )
        for part in parts
    ]


def _claims(board: Leaderboard) -> Table:
    rows = [
        [
            one.claim,
            one.verdict,
            one.metric,
            _number(one.difference),
            f"{one.low:+.3f} to {one.high:+.3f}" if one.low is not None and one.high is not None else _UNKNOWN,
            "; ".join(filter(None, (one.note, one.source))),
        ]
        for one in board.claims
    ]
    columns = ["claim", "verdict", "metric", "difference", "95 % interval", "source and note"]
    return Table("Claims", "Made before the runs; Holm-corrected over the claims.", columns, rows)


def _published(board: Leaderboard) -> Table:
    rows = [
        [
            one["row"],
            one["metric"],
            one["source"] + ("" if one["origin"] == "own" else f", {one['origin']}"),
            f"{one['reported']:g}" + (f" ±{one['spread']:g}" if one["spread"] is not None else ""),
            f"{one['ours']:.2f}",
            f"{one['difference']:+.2f}",
            one["note"],
        ]
        for one in board.facts.get("published", [])
    ]
    columns = ["row", "metric", "source", "reported", "ours", "difference", "note"]
    note = "Per cent. The reported number is the one whose setting is closest to ours."
    return Table("Published beside ours", note, columns, rows)


def _tuning(found: TuningTable | None) -> Table:
    if found is None:
        return Table("Tuning", "", [], [])
    rows = [
        [row.label, _number(row.default), _number(row.best), _number(row.gain), str(row.trials), f"{row.seconds:.0f}"]
        for row in found.rows
    ]
    record = found.record
    note = f"{record.budget}, sampler {record.sampler}, {record.metric} on {record.judged_by}."
    return Table("Tuning", note, ["row", "default", "best", "gain", "trials", "seconds"], rows)


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3f}"


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
