"""Compact embeddings of every leaderboard row: bytes per image against score, means over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield.errors import BadInput, LevelfieldError
from levelfield.evaluation.compacting import CompactScore, compact_scores, undetermined
from levelfield.evaluation.metrics.registry import parse
from levelfield.evaluation.statistics.intervals import Interval, class_interval, paired_interval
from levelfield.progress import SILENT, Progress
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.entries import Entry, finished_entries
from levelfield.studies.runs.finished import embed_part, how_many_bits, how_refined, stored_test
from levelfield.studies.runs.spec import PlannedRun

WHOLE = "float32"


@dataclass(frozen=True)
class CompactCell:
    """The score of one form: mean over seeds, and its difference from float32 in the same runs.

    Intervals are 95 % over test classes, of the mean over seeds. None: unknown, or the row of float32 itself.
    """

    bytes: int
    mean: float
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None


@dataclass(frozen=True)
class CompactRow:
    """One leaderboard row: the form's name and its score. runs: the folders that were evaluated."""

    label: str
    dim: int
    seeds: list[int]
    cells: dict[str, CompactCell]
    runs: list[str]


@dataclass(frozen=True)
class CompactTable:
    """Rows in the order of the leaderboard, and sentences on rows and forms that were left out."""

    metric: str
    rows: list[CompactRow]
    left_out: list[str]


class _Seed(NamedTuple):
    """One form and seed: size, dimensions of the whole embedding, score, and the score of each class."""

    bytes: int
    dim: int
    value: float
    classes: np.ndarray
    queries: np.ndarray


def check_metrics(metrics: Iterable[str]) -> None:
    """Refuse metrics without a retrieval metric, before anything is trained or computed."""
    names = list(metrics)
    if not any(parse(name).kind == "retrieval" for name in names):
        raise BadInput(
            f"--compact compares a retrieval metric, such as recall@1, but the metrics are {', '.join(names)}: add one."
        )


def compact_table(
    board: Leaderboard, runs: Sequence[PlannedRun], folder: Path, *, progress: Progress = SILENT
) -> CompactTable:
    """Evaluate every compact form of the board's first metric. Forms are fitted on each run's training classes.

    Rows whose training classes cannot be embedded, and binary codes, are left out.
    """
    metric = board.metrics[0]
    check_metrics([metric])
    entries_by_row, _ = finished_entries(runs, folder, tuple(board.metrics))
    stage = progress.stage("compact embeddings", sum(len(entries) for entries in entries_by_row.values()))
    rows, left_out = [], []
    for label in (row.label for row in board.rows):
        try:
            seeds = []
            for entry in entries_by_row[label]:
                seeds.append(_seed(entry, metric))
                stage.advance()
        except LevelfieldError as error:
            left_out.append(f"{label}: {error}")
            stage.advance(len(entries_by_row[label]) - len(seeds))
            continue
        entries, whole = entries_by_row[label], [forms[WHOLE] for forms in seeds]
        names = [name for name in seeds[0] if all(name in forms for forms in seeds)]
        cells = {name: _cell([forms[name] for forms in seeds], whole, name) for name in names}
        folders = [result.folder.name for entry in entries for result in entry.results]
        rows.append(CompactRow(label, whole[0].dim, [entry.seed for entry in entries], cells, folders))
        if lacking := undetermined(cells, whole[0].dim):
            left_out.append(f"{label}, {lacking}")
    return CompactTable(metric, rows, left_out)


def _seed(entry: Entry, metric: str) -> dict[str, _Seed]:
    """The forms of one seed by name; the scores of its members are averaged."""
    members = [_forms(result.folder, metric) for result in entry.results]
    return {
        name: _Seed(
            first.form.bytes,
            first.form.source.shape[1],
            float(np.mean([each[name].result[metric] for each in members])),
            np.mean([each[name].result.per_class(metric).means for each in members], axis=0),
            first.result.per_class(metric).queries,
        )
        for name, first in members[0].items()
        if all(name in each for each in members)
    }


def _forms(folder: Path, metric: str) -> dict[str, CompactScore]:
    test, items = stored_test(folder)
    if how_many_bits(folder) == 1:
        raise BadInput("its embeddings are binary codes, one bit per number.")
    if refined := how_refined(folder):
        raise BadInput(f"the stored model alone cannot repeat its refinement of test embeddings ({refined}).")
    train, _ = embed_part(folder, "training")
    settings = {"metrics": [metric], "ci": None}
    return {score.form.name: score for score in compact_scores(train, items.arrays(test), settings)}


def _cell(form: Sequence[_Seed], whole: Sequence[_Seed], name: str) -> CompactCell:
    queries, (mean, whole_mean) = form[0].queries, (float(np.mean([s.value for s in seeds])) for seeds in (form, whole))
    classes, whole_classes = (np.stack([seed.classes for seed in seeds]) for seeds in (form, whole))
    cell = CompactCell(form[0].bytes, mean, *_ends(class_interval(classes, queries)))
    if name == WHOLE:
        return cell
    difference = paired_interval(mean - whole_mean, classes, whole_classes, queries)
    low, high = _ends(difference)
    return replace(cell, difference=difference.mean, difference_low=low, difference_high=high)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    """Both ends; None if there is no interval."""
    if interval is None or math.isnan(interval.low):
        return None, None
    return interval.low, interval.high
