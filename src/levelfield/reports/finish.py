"""Finish a study: the same output for `levelfield.compare`, `levelfield compare` and `levelfield report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from levelfield.embedder.best import write_best
from levelfield.errors import LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.reports.against_published import with_published
from levelfield.reports.figures import draw_figures, figures_of
from levelfield.reports.leaderboard.answer import advice
from levelfield.reports.leaderboard.tables import write_all
from levelfield.reports.leaks import crossings, with_leaks, write_crossings
from levelfield.reports.report import Report
from levelfield.reports.robustness import robustness, write_robustness
from levelfield.reports.tuning import tuning_table, write_tuning
from levelfield.studies.leaderboard.board import gather
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study


def finish(
    study: Study,
    runs: list[PlannedRun],
    folder: Path,
    *,
    out: Path | None = None,
    metrics: Sequence[str] = (),
    figures: Sequence[str] = (),
    near_leaks: bool = False,
    progress: Progress = SILENT,
) -> Report:
    """Gather the finished runs in `folder` and write tables and figures into `out`, by default the same folder.

    A figure that cannot be drawn does not affect the rest. metrics, figures: override those of the study. near_leaks:
    search for near-duplicates across the split, and draw them.
    """
    own = out is None and not metrics
    out = out or folder
    board = gather(study.name, runs, folder, tuple(metrics) or study.metrics, claims=study.claims)
    board = with_published(board, runs)
    told = {"advice": advice(board, study.conditions)}
    board = replace(board, facts={**board.facts, **told})
    crossing = crossings(board, runs, folder, near=near_leaks, progress=progress)
    sheets = write_crossings(crossing, folder) if own or near_leaks else []
    board = with_leaks(board, crossing, folder, out)
    robust = robustness(study, board, runs, folder)
    labels = {method.label for method in study.methods}
    tuning = None if study.tuning is None else tuning_table(study.tuning.of(labels))
    paths = write_all(board, out) + write_robustness(robust, out) + write_tuning(tuning, out)
    not_drawn: dict[str, str] = {}
    for name in figures or figures_of(study):
        try:
            paths += draw_figures([name], board, runs, folder, out)
        except Exception as error:  # no error in a figure may lose the leaderboard; it is reported
            known = isinstance(error, LevelfieldError)
            not_drawn[name] = str(error) if known else f"{type(error).__name__}: {error}"
    if own:
        write_best(folder, Path(board.answer.first_run))
    return Report(board, robust, paths + sheets, not_drawn, tuning)
