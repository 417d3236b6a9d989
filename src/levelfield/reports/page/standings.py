"""The leaderboard of the page: what speaks against the answer, the rows, their letters, and the tests between them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from levelfield.evaluation import describe, parse
from levelfield.reports.figures._rows import COLOURS, styles
from levelfield.reports.leaderboard.cells import letters
from levelfield.reports.leaderboard.verdicts import difference_text, how_compared
from levelfield.reports.page.content import Data, score
from levelfield.studies import Leaderboard, PlannedRun
from levelfield.studies.runs.folder.store import read_result
from levelfield.wording import first_few, plural

_MIN_CLASSES = 20  # test classes; with fewer only large differences can be established
_PAID = {"seconds": "seconds", "images_seen": "images", "peak_bytes": "peak_bytes", "passes": "rows_through_trunk"}
MOST_PAIRS = 3_000  # comparisons on the page, those of the best rows first


def metrics_of(names: Iterable[str]) -> list[Data]:
    """Metrics with their definitions. higher: larger is better; False for metrics that only describe."""
    return [{"name": name, "higher": parse(name).kind != "geometry", "text": describe(name).text} for name in names]


def rows_of(
    board: Leaderboard, runs: Sequence[PlannedRun], folder: Path, tests: dict[str, int], embedded: dict[int, int]
) -> list[Data]:
    """All rows, best first. colour: -1 is grey. cells: a `score` for each metric. deviations: with their letters.

    tests: the index of each row's test set, by label. embedded: of each row that is among its methods, the index there.
    """
    looks = styles(runs)
    first_runs = {run.row: run for run in reversed(runs)}
    signs = letters(text for row in board.rows for text in row.deviations)
    groups: dict[str, str] = {}  # none for rows that were not compared
    for test_set in board.signatures:
        labels = [row.label for row in board.rows if row.test_set == test_set]
        pairs = [pair for pair in board.comparisons if pair.first in labels and pair.second in labels]
        if pairs:
            groups |= letter_groups(labels, [(pair.first, pair.second) for pair in pairs if pair.better()])
    dims = {}
    for row in board.rows:
        result = read_result(Path(row.first_run))
        shown = {} if result is None else result.signatures[board.metrics[0]]["representation"]
        dims[row.label] = int(shown.get("dim", 0))
    return [
        {
            "label": row.label,
            "colour": COLOURS.index(look) if (look := looks[first_runs[row.label].label].colour) in COLOURS else -1,
            "method": first_runs[row.label].spec.method.name,
            "trained": row.trained,
            "seeds": len(row.seeds),
            "dim": dims[row.label],
            "cells": {name: score(cell.mean, cell.low, cell.high, cell.spread) for name, cell in row.cells.items()},
            **{key: getattr(row, cost) if row.trained else None for key, cost in _PAID.items()},
            "group": groups.get(row.label, ""),
            "deviations": [{"key": signs[text], "text": text} for text in row.deviations],
            "test": tests[row.label],
            "run": os.path.relpath(row.first_run, folder),
            "embedded": embedded.get(number),
        }
        for number, row in enumerate(board.rows)
    ]


def comparisons_of(board: Leaderboard) -> list[Data]:
    """The tests between rows, given by their index, in the order of the leaderboard; at most MOST_PAIRS."""
    numbers = {row.label: number for number, row in enumerate(board.rows)}
    compared = []
    for pair in board.comparisons:
        seen = pair if numbers[pair.first] < numbers[pair.second] else pair.seen_from(pair.second)
        within = f" (95 % {seen.low:+.3f} to {seen.high:+.3f})" if seen.low is not None else ""
        verdict = "not tested" if seen.adjusted is None else "better" if seen.better() else "tie"
        entry = {
            "first": numbers[seen.first],
            "second": numbers[seen.second],
            "difference": seen.difference,
            "low": seen.low,
            "high": seen.high,
            "p": seen.adjusted,
            "better": None if seen.winner is None else "first" if seen.winner == seen.first else "second",
            "text": f"{difference_text(seen)}{within}: {verdict}.",
        }
        compared.append(entry)
    compared.sort(key=lambda entry: (entry["first"], entry["second"]))
    return compared[:MOST_PAIRS]


def comparison_note(board: Leaderboard) -> str:
    """How the rows were compared, and how many comparisons are left out."""
    if not board.comparisons:
        return "Nothing to compare: one row, or no metric with a value per query."
    left = len(board.comparisons) - MOST_PAIRS
    return how_compared(board) + (f" {left:,} more pairs are in leaderboard.json." if left > 0 else "")


def cautions_of(board: Leaderboard) -> list[str]:
    """What speaks against trusting the answer, gravest first."""
    best, trained = board.recommended, [row for row in board.rows if row.trained]
    leaks = [fact["text"] for fact in board.facts.get("leaks", [])]
    cautions = [text for text in leaks if text.startswith("LEAK")] + [text for text in leaks if "unknown" in text]
    if board.missing:
        count = plural(len(board.missing), "run is", "runs are")
        cautions.append(f"{count} missing: {first_few(board.missing, '; ')}.")
    classes = min((pair.classes for pair in board.comparisons), default=0)
    if board.limit:
        cautions.append(board.limit)
    elif 0 < classes < _MIN_CLASSES:
        count = plural(classes, "test class", "test classes")
        cautions.append(f"{count}: only large differences can be established.")
    single = [row.label for row in trained if len(row.seeds) == 1]
    if single:
        some = f"{first_few(single)} {'was' if len(single) == 1 else 'were'}"
        who = "Every method was" if len(single) == len(trained) else some
        cautions.append(f"{who} trained once: how much another seed would change is unknown.")
    if best.trained and best.deviations:
        cautions.append(f"{best.label} departs from the conditions: {'; '.join(best.deviations)}.")
    return cautions + [f"{row.label}: {text}." for row in board.rows for text in row.warnings]


_MOST_SETS = 200  # sets of rows; beyond that the letters would explain nothing


def letter_groups(rows: Sequence[str], better: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each row. better: pairs of rows that differ significantly, in any order.

    Sets of rows are split at every such pair, and sets within others are dropped (Piepho 2004). Empty letters: there
    would be more than 200 sets.

    >>> letter_groups(["a", "b", "c"], [("a", "c")])
    {'a': 'a', 'b': 'ab', 'c': 'b'}
    >>> letter_groups(["a", "b"], [])
    {'a': 'a', 'b': 'a'}
    """
    sets = [frozenset(rows)] if rows else []
    for first, second in better:
        split = [group for group in sets if first in group and second in group]
        if not split:
            continue
        halves = {group - {name} for group in split for name in (first, second)}
        kept = [group for group in sets if group not in split]
        sets = kept + [half for half in halves if half and not any(half <= group for group in kept)]
        sets = [group for group in sets if not any(group < other for other in sets)]
        if len(sets) > _MOST_SETS:
            return dict.fromkeys(rows, "")
    order = {row: number for number, row in enumerate(rows)}
    sets.sort(key=lambda group: sorted(order[row] for row in group))
    signs = list(letters(map(str, range(len(sets)))).values())
    return {row: "".join(sign for sign, group in zip(signs, sets, strict=True) if row in group) for row in rows}
