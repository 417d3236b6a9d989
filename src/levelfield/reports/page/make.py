"""Make the page of a study: collect, write, and leave a page alone that would not change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import levelfield
from levelfield.progress import SILENT, Progress
from levelfield.reports.page.write import DATA, FILE, is_made_of, write_data, write_page
from levelfield.reports.report import Report
from levelfield.reports.split_leaks import Crossing
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.runs.folder.files import FINISHED
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study


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
    from levelfield.reports.page.collect import collect

    page = collect(
        study,
        report.leaderboard,
        runs,
        folder,
        robust=report.robustness,
        tuning=report.tuning,
        compact=report.compact,
        crossings=crossings,
        progress=progress,
    )
    write_data(page, paths[1])
    write_page(page, paths[0], made_of=mark)
    return paths


def made_of(board: Leaderboard, study: Study) -> str:
    """A text that changes with the leaderboard, the study, the runs that the page shows, or the version."""
    digest = hashlib.sha256(levelfield.__version__.encode())
    digest.update(study.model_dump_json().encode())
    digest.update(repr(board.content()).encode())
    for row in board.rows:
        digest.update((Path(row.first_run) / FINISHED).read_bytes())
    return digest.hexdigest()
