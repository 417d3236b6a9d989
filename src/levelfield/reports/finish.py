"""Finish a study: the same report for `levelfield.compare`, `levelfield compare` and `levelfield report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.embedder.best import write_best
from levelfield.errors import LevelfieldError
from levelfield.evaluation import parse
from levelfield.progress import SILENT, Progress
from levelfield.reports.compact_scores import NAME as COMPACT
from levelfield.reports.compact_scores import write_compact
from levelfield.reports.figures import check_figures, draw_figures, figures_of
from levelfield.reports.leaderboard.answer import advice
from levelfield.reports.leaderboard.tables import write_all
from levelfield.reports.published_comparison import with_published
from levelfield.reports.report import PAGE, Report
from levelfield.reports.robustness import robustness
from levelfield.reports.search_results import TuningTable, tuning_table
from levelfield.reports.split_leaks import crossings, with_leaks, write_crossings
from levelfield.studies import Leaderboard, PlannedRun, Study, gather, read_study
from levelfield.studies.leaderboard.compact import CompactTable, check_metrics, compact_table
from levelfield.studies.runs.folder.store import read_plan


def finish(
    study: Study,
    runs: list[PlannedRun],
    folder: Path,
    *,
    out: Path | None = None,
    metrics: Sequence[str] = (),
    figures: Sequence[str] = (),
    beside: Sequence[Path] = (),
    near_leaks: bool = False,
    compact: bool = False,
    page: bool = True,
    again: bool = False,
    progress: Progress = SILENT,
) -> Report:
    """Gather the finished runs in `folder` and write tables, figures and the page into `out`, by default the same
    folder.

    A figure, compact table or page that cannot be made does not affect the rest. metrics, figures: override those of
    the study. beside: folders of other studies, which the figures show, too. near_leaks: search for near-duplicates
    across the split, and draw them. compact: evaluate the embeddings in fewer bytes, too, in a table of its own. page:
    write report.html, unless it is there and would not change. again: write it anyway.
    """
    of_study = out is None and not metrics  # not another view of it
    out = out or folder
    board = gathered(study, runs, folder, metrics)
    crossing = crossings(board, runs, folder, near=near_leaks, progress=progress)
    sheets = write_crossings(crossing, folder) if of_study or near_leaks else []
    board = with_leaks(board, crossing, folder, out)
    robust, tuning = robustness(study, board, runs, folder), tuning_of(study)
    paths = write_all(board, out) + (robust.write(out) if robust else []) + (tuning.write(out) if tuning else [])
    not_drawn: dict[str, str] = {}
    fewer: CompactTable | None = None
    if compact:
        with _optional(COMPACT, not_drawn):
            fewer = compact_table(board, runs, folder, progress=progress)
            paths += write_compact(fewer, out)
    for name in figures or figures_of(study):
        with _optional(name, not_drawn):
            paths += draw_figures([name], board, runs, folder, out, beside)
    if of_study:
        write_best(folder, Path(board.recommended.first_run))
    report = Report(board, robust, paths + sheets, not_drawn, tuning, compact=fewer)
    if not page:
        return report
    return _with_page(report, study, runs, folder, out, crossings=crossing, again=again, progress=progress)


def _with_page(report: Report, *where: Any, **settings: Any) -> Report:
    """The report with its page, if that can be made. where, settings: of `make_page`."""
    from levelfield.reports.page import collect  # thumbnails and maps need packages that tables do not

    with _optional(PAGE, report.not_drawn):
        written = collect.make_page(report, *where, **settings)
        return replace(report, paths=[*report.paths, *written], page=written[0])
    return report


@contextmanager
def _optional(name: str, reasons: dict[str, str]) -> Iterator[None]:
    """Make a part of the report. An error in it must not lose the leaderboard: it becomes the part's reason."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, LevelfieldError)
        reasons[name] = str(error) if known else f"{type(error).__name__}: {error}"


def gathered(study: Study, runs: list[PlannedRun], folder: Path, metrics: Sequence[str] = ()) -> Leaderboard:
    """The leaderboard of the finished runs, with published results and advice."""
    board = gather(study.name, runs, folder, tuple(metrics) or study.metrics, claims=study.claims)
    board = with_published(board, runs)
    if study.recipe is not None:
        board = replace(board, facts={**board.facts, "recipe": study.recipe.model_dump(mode="json")})
    return replace(board, facts={**board.facts, "advice": advice(board, study.conditions)})


def tuning_of(study: Study) -> TuningTable | None:
    """How the settings of the study were chosen, if it records that."""
    labels = {method.label for method in study.methods}
    return None if study.tuning is None else tuning_table(study.tuning.of(labels))


def report_folder(
    folder: Path, *, metrics: Sequence[str] = (), figures: Sequence[str] = (), compact: bool = False, **settings: Any
) -> Report:
    """The report of the finished runs in a study folder; nothing is trained. Metrics and figures are checked first.

    metrics, figures: by default those of the study. settings: other arguments of `finish`.
    """
    runs, study = read_plan(folder), read_study(folder / "study.yaml")
    for name in metrics or study.metrics:
        parse(name)
    if compact:
        check_metrics(tuple(metrics) or study.metrics)
    drawn = check_figures(figures or figures_of(study))
    return finish(study, runs, folder, metrics=metrics, figures=drawn, compact=compact, **settings)
