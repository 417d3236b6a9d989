"""From a study to its report: one pipeline for `levelfield.compare` and the command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.embedder.devices import AUTO, computing_on, usable
from levelfield.errors import LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.reports.figures import check_figures, figures_of
from levelfield.reports.finish import finish
from levelfield.reports.report import Report
from levelfield.studies import ResolvedStudy, Study, parse_study, resolve
from levelfield.studies.execution.events import SILENT_RUNS, RunsProgress
from levelfield.studies.execution.executor import Executor, Outcome
from levelfield.studies.execution.study import execute_study, keep_earlier
from levelfield.studies.leaderboard.compact import check_metrics
from levelfield.studies.runs.training import Options
from levelfield.studies.specification.yaml_file import named_by, read_study
from levelfield.trust import trusting
from levelfield.wording import first_few

_log = logging.getLogger("levelfield")


def compare(
    study: Study | Path | str | dict[str, Any],
    *,
    out: Path | str = "runs",
    jobs: int = 0,
    device: str | None = None,
    options: Options | None = None,
    progress: RunsProgress = SILENT_RUNS,
    trust: Sequence[Path | str] = (),
    page: bool = True,
    compact: bool = False,
) -> Report:
    """Run a study (finished runs are skipped), write its tables, figures and page, and return its report.

    In Python: `levelfield.compare("demo")`, `levelfield.compare({"data": "emoji", "methods": ["margin", "triplet"]})`.

    Args:
        study: the name of a built-in study, a YAML file, its content as a dict, or a `Study`.
        out: the parent folder of the study's folder.
        jobs: number of worker processes. 0 runs in this process, unless a method is user code, which never runs in
            the process that evaluates other methods.
        device: "cpu", "cuda", "cuda:1", "mps" or "auto" (CUDA, else MPS, else the CPU); by default that of `options`,
            or "auto" without options.
        options: further options that do not change a run's identity.
        progress: progress of the runs; silent by default.
        trust: code files that may run besides those that the study names, such as the loss of a teacher.
        page: write report.html, a page with the images and what every method finds for them.
        compact: evaluate the embeddings in fewer bytes, too: a table of bytes per image against score.

    Returns:
        The `Report`: `.leaderboard` (rows, best first, and the comparisons between them), `.best`, `.text()`.
    """
    with trusting(*named_by(study), *trust):
        if isinstance(study, dict):
            study = parse_study(study)
        elif not isinstance(study, Study):
            study = read_study(study)
        check_output(study, compact=compact)
        options = options or Options(device=AUTO)
        options = replace(options, device=usable(device or options.device))
        resolved = resolve(study, options=options, here=jobs == 0, progress=progress)
        folder = Path(out) / study.name
        execute(resolved, folder, jobs=jobs, progress=progress)
        report = finish_resolved(resolved, folder, page=page, compact=compact, progress=progress)
    if report.not_drawn:
        _log.warning(report.missing_figures)
    return report


def check_output(study: Study, *, compact: bool = False) -> None:
    """Refuse, before anything is trained, figures and tables that the study cannot have."""
    check_figures(figures_of(study), study)
    if compact:
        check_metrics(study.metrics)


def execute(
    resolved: ResolvedStudy,
    folder: Path,
    *,
    jobs: int,
    progress: RunsProgress = SILENT_RUNS,
    executor: Executor | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> Outcome:
    """Execute the unfinished runs of a study in `folder`. An earlier study there is kept; raises if no run finished."""
    earlier = keep_earlier(folder, resolved.runs, resolved.study.metrics)
    if earlier:
        warn(earlier)
    outcome = execute_study(resolved, folder, jobs=jobs, progress=progress, executor=executor)
    if resolved.runs and len(outcome.failed) == len(resolved.runs):
        raise LevelfieldError(f"All runs failed. The first error: {next(iter(outcome.failed.values()))}")
    return outcome


def finish_resolved(
    resolved: ResolvedStudy, folder: Path, *, page: bool = True, compact: bool = False, progress: Progress = SILENT
) -> Report:
    """Gather the finished runs of a study and write its report."""
    with resolved.in_use(), computing_on(resolved.options.device):
        return finish(resolved.study, resolved.runs, folder, page=page, compact=compact, progress=progress)


def refuse_if_missing(report: Report, outcome: Outcome, resolved: ResolvedStudy, folder: Path) -> None:
    """Raise if runs, figures or the page are missing: for the exit code, after everything else has been shown."""
    runs, missing, problems = resolved.runs, report.leaderboard.missing, []
    if missing:
        problems.append(
            f"{len(missing)} of {len(runs)} runs did not finish: {first_few(missing, '; ')}. See error.txt "
            f"in their folders under {folder}."
        )
    if outcome.unmeasured:
        titles = first_few([runs[number].title for number in outcome.unmeasured], "; ")
        problems.append(
            f"{len(outcome.unmeasured)} of {len(runs)} runs could not be evaluated on corrupted images: {titles}. "
            f"The first reason: {next(iter(outcome.unmeasured.values()))}"
        )
    if problems:
        raise LevelfieldError(" ".join([*problems, "Run the same command again to retry them."]))
    report.refuse_if_not_drawn()
