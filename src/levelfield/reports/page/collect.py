"""Collect the data of a study's page from its leaderboard and its run folders. Nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import levelfield
from levelfield.errors import LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.reports.leaderboard.answer import answer
from levelfield.reports.page.content import Array, Page, Row, TestSet
from levelfield.reports.page.image_set import image_set
from levelfield.reports.page.looking import Method, look
from levelfield.reports.page.sections import standings
from levelfield.reports.page.sections.logged_curves import curves_of
from levelfield.reports.page.sections.same_or_not import validation_threshold
from levelfield.reports.page.sections.study_tables import tables_of
from levelfield.reports.robustness import Robustness
from levelfield.reports.search_results import TuningTable
from levelfield.reports.split_leaks import Crossing
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.compact import CompactTable
from levelfield.studies.leaderboard.rows import Row as BoardRow
from levelfield.studies.runs.finished import stored_test
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study
from levelfield.wording import plural


@dataclass(eq=False)
class Stored:
    """The test images of some rows, and each row's first run with its embeddings."""

    test_set: str
    items: Items
    folders: dict[str, Path]
    rows: dict[str, Array]

    def holds(self, row: BoardRow, items: Items) -> bool:
        own = self.items
        roles = (own.roles is None) == (items.roles is None) and (own.roles is None or (own.roles == items.roles).all())
        same = own.paths == items.paths and (own.classes == items.classes).all()
        return bool(row.test_set == self.test_set and same and roles)


def collect(
    study: Study,
    board: Leaderboard,
    runs: Sequence[PlannedRun],
    folder: Path,
    *,
    robust: Robustness | None = None,
    tuning: TuningTable | None = None,
    compact: CompactTable | None = None,
    crossings: Sequence[Crossing] = (),
    progress: Progress = SILENT,
) -> Page:
    """The page of a study. Rows without test embeddings appear on the leaderboard only, and a note says so."""
    sets, notes = stored_sets(board)
    tests = {label: number for number, one in enumerate(sets) for label in one.rows}
    rows = standings.rows_of(board, runs, folder, {row.label: _test(row, tests, sets) for row in board.rows})
    leaks = {one.test_set: one.leaks for one in crossings}
    looked = [
        look(
            one.test_set,
            image_set(one.items, next(iter(one.folders.values()))),
            _methods(one, rows, board),
            leaks=leaks.get(one.test_set),
            notes=notes,
            progress=progress,
        )
        for one in sets
    ] or [_nothing(board, notes)]
    return Page(
        levelfield=levelfield.__version__,
        study=study.name,
        about=study.about,
        answer=[*answer(board), standings.cost_of(board)],
        cautions=[*standings.cautions_of(board), *_lost(looked)],
        best=next(number for number, row in enumerate(board.rows) if row.label == board.answer.label),
        metrics=standings.metrics_of(board),
        rows=[replace(row, embedded=_embedded_index(number, looked[row.test])) for number, row in enumerate(rows)],
        comparisons=standings.comparisons_of(board),
        comparison_note=standings.comparison_note(board),
        tables=tables_of(study, board, runs, robust, tuning, compact),
        curves=curves_of(board, runs, folder),
        missing=standings.missing_of(board, runs),
        tests=looked,
    )


def stored_sets(board: Leaderboard) -> tuple[list[Stored], list[str]]:
    """The rows of the leaderboard by the test images of their first run, and notes on rows without embeddings."""
    sets: list[Stored] = []
    notes: list[str] = []
    for row in board.rows:
        folder = Path(row.first_run)
        try:
            rows, items = stored_test(folder)
        except LevelfieldError as error:
            notes.append(f"{row.label} is not shown here: {error}")
            continue
        own = next((one for one in sets if one.holds(row, items)), None)
        if own is None:
            own = Stored(row.test_set, items, {}, {})
            sets.append(own)
        own.folders[row.label], own.rows[row.label] = folder, rows
    return sets, notes


def _test(row: BoardRow, tests: dict[str, int], sets: Sequence[Stored]) -> int:
    """The test set of a row; of a row without embeddings, that of other rows with the same data."""
    return tests.get(row.label, next((n for n, one in enumerate(sets) if one.test_set == row.test_set), 0))


def _methods(one: Stored, rows: Sequence[Row], board: Leaderboard) -> list[Method]:
    distance = board.signatures[one.test_set][board.metrics[0]]["distance"]
    return [
        Method(
            number,
            row.label,
            one.rows[row.label],
            row.trained,
            one.folders[row.label],
            distance,
            validation_threshold(one.folders[row.label]) if distance == "cosine" else None,
        )
        for number, row in enumerate(rows)
        if row.label in one.rows
    ]


def _nothing(board: Leaderboard, notes: list[str]) -> TestSet:
    """A test set without images, for a study whose runs keep no test embeddings."""
    return TestSet(next(iter(board.signatures)), 0, [], np.zeros(0, np.uint16), [], notes=notes)


def _embedded_index(row: int, test: TestSet) -> int | None:
    return next((number for number, one in enumerate(test.methods) if one.row == row), None)


def _lost(tests: Sequence[TestSet]) -> list[str]:
    """How many images of a test set could not be read, with an example."""
    notes = []
    for one in tests:
        if one.lost:
            count = plural(len(one.lost), "test image is", "test images are")
            example = one.files[one.lost[0]]
            notes.append(
                f"{count} missing or unreadable now, such as {example}; the scores are from when they were there."
            )
    return notes
