"""Make the page of a study from its leaderboard and its run folders. Nothing is trained."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import levelfield
from levelfield.files.writing import write_text
from levelfield.progress import SILENT, Progress
from levelfield.reports.leaderboard.answer import answer
from levelfield.reports.page import standings
from levelfield.reports.page.content import Data, empty_test, page_of
from levelfield.reports.page.image_set import Stored, image_set, stored_sets
from levelfield.reports.page.neighbour_lists import EmbeddedRow
from levelfield.reports.page.same_or_not import validation_threshold
from levelfield.reports.page.study_tables import curves_of, tables_of
from levelfield.reports.page.write import DATA, FILE, is_made_of, to_json, write_page
from levelfield.reports.report import Report
from levelfield.reports.split_leaks import Crossing
from levelfield.studies import Leaderboard, PlannedRun, Study
from levelfield.studies.leaderboard.rows import Row
from levelfield.studies.runs.folder.files import FINISHED
from levelfield.wording import plural


def make_page(
    report: Report,
    study: Study,
    runs: Sequence[PlannedRun],
    folder: Path,
    out: Path,
    *,
    crossings: Sequence[Crossing] = (),
    again: bool = False,
    progress: Progress = SILENT,
) -> list[Path]:
    """Write report.html and report.json into `out`, and return their paths.

    They are left alone if they were made from the same leaderboard, runs and version. again: make them anyway, as for a
    report with a table of compact embeddings, which plain reports of the same runs then keep.
    """
    paths = [out / FILE, out / DATA]
    mark = made_of(report.leaderboard, study)
    if not (again or report.compact) and paths[1].is_file() and is_made_of(paths[0], mark):
        return paths
    page = collect(report, study, runs, folder, crossings=crossings, progress=progress)
    tests = [{**test, "thumbnails": None} for test in page["tests"]]
    write_text(paths[1], to_json({**page, "tests": tests}) + "\n")
    write_page(page, paths[0], made_of=mark)
    return paths


def made_of(board: Leaderboard, study: Study) -> str:
    """A text that changes with the leaderboard, the study, the runs that the page shows, or the version."""
    digest = hashlib.sha256(levelfield.__version__.encode())
    digest.update(study.model_dump_json().encode())
    digest.update(repr(board.as_data()).encode())
    for row in board.rows:
        digest.update((Path(row.first_run) / FINISHED).read_bytes())
    return digest.hexdigest()


def collect(
    report: Report,
    study: Study,
    runs: Sequence[PlannedRun],
    folder: Path,
    *,
    crossings: Sequence[Crossing] = (),
    progress: Progress = SILENT,
) -> Data:
    """The page of a study. Rows without test embeddings appear on the leaderboard only, and a note says so.

    rows: best first; metrics[0] decides their order. live: set by the server of `levelfield view`; its token, and the
    rows whose model can embed a new image.
    """
    # imports numba, which a page that is already there does not need
    from levelfield.reports.page.one_test_set import data_of_test_set

    board = report.leaderboard
    sets, notes = stored_sets(board.rows)
    test_of = {}
    for row in board.rows:  # a row without embeddings belongs to the test set of others with the same data
        embedded = [number for number, stored in enumerate(sets) if row.label in stored.folders]
        alike = [number for number, stored in enumerate(sets) if stored.test_set == row.test_set]
        test_of[row.label] = [*embedded, *alike, 0][0]
    leaks = {crossing.test_set: crossing.leaks for crossing in crossings}
    tests = [
        data_of_test_set(
            stored.test_set,
            image_set(stored),
            _methods(stored, board.rows, board.signatures[stored.test_set][board.metrics[0]]["distance"]),
            leaks=leaks.get(stored.test_set),
            notes=notes,
            progress=progress,
        )
        for stored in sets
    ]
    if not tests:  # the runs keep no test embeddings
        tests = [empty_test(next(iter(board.signatures)), notes)]
    positions = {method["row"]: number for test in tests for number, method in enumerate(test["methods"])}
    lost = [
        f"{plural(len(test['lost']), 'test image is', 'test images are')} missing or unreadable now, such as "
        f"{test['files'][test['lost'][0]]}; the scores are from when they were there."
        for test in tests
        if test["lost"]
    ]
    titles = sorted((run.title for run in runs), key=len, reverse=True)
    missing = []
    for text in board.missing:
        title = next((title for title in titles if text.startswith(title)), text)
        missing.append({"row": title, "reason": text[len(title) :].lstrip(": ") or "not finished"})
    best = board.recommended
    cost = "trains nothing"
    if best.trained:
        costs = [f"{best.seconds:,.1f} seconds of training per run"]
        costs += [f"{best.images:,.0f} images seen"] if best.images is not None else []
        costs += [f"{best.peak_bytes / 1e9:.1f} GB of memory at most"] if best.peak_bytes is not None else []
        cost = f"costs {', '.join(costs)}"
    return {
        **page_of(study.name, tests),
        "about": study.about,
        "answer": [*answer(board), f"{best.label} {cost}."],
        "cautions": [*standings.cautions_of(board), *lost],
        "best": [row.label for row in board.rows].index(best.label),
        "metrics": standings.metrics_of(board.metrics),
        "rows": standings.rows_of(board, runs, folder, test_of, positions),
        "comparisons": standings.comparisons_of(board),
        "comparison_note": standings.comparison_note(board),
        "tables": tables_of(report, study, runs),
        "curves": curves_of(board, runs, folder),
        "missing": missing,
    }


def _methods(stored: Stored, rows: Sequence[Row], distance: str) -> list[EmbeddedRow]:
    methods = []
    for number, row in enumerate(rows):
        if row.label in stored.folders:
            folder = stored.folders[row.label]
            threshold = validation_threshold(folder) if distance == "cosine" else None
            vectors = stored.rows[row.label]
            methods.append(EmbeddedRow(number, row.label, vectors, row.trained, folder, distance, threshold))
    return methods
