"""Execute the runs of a resolved study, and evaluate them on corrupted images if it asks for that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from levelfield.embedder.devices import computing_on
from levelfield.errors import BadInput, LevelfieldError
from levelfield.evaluation import parse
from levelfield.evaluation.metrics.registry import ranking
from levelfield.evaluation.search.threads import torch_threads
from levelfield.files.plain_yaml import write_yaml
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import Executor, Outcome
from levelfield.studies.execution.workers import run_all
from levelfield.studies.planning.resolve import ResolvedStudy
from levelfield.studies.runs.corrupted_scores import record
from levelfield.studies.runs.folder.files import ITEMS
from levelfield.studies.runs.folder.store import PLAN, read_plan, write_plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import read_study
from levelfield.trust import trusted

EARLIER = "earlier"


def execute_study(
    resolved: ResolvedStudy,
    folder: Path,
    *,
    jobs: int,
    runs: Sequence[PlannedRun] | None = None,
    progress: RunsProgress = SILENT_RUNS,
    describe: bool = True,
    executor: Executor | None = None,
) -> Outcome:
    """Write study.yaml and the plan, then execute the unfinished runs.

    Args:
        resolved: the study.
        folder: its folder.
        jobs: number of worker processes; 0: this process.
        runs: some of the study's runs; default: all of them.
        progress: events of the runs, by their position in `runs`.
        describe: whether to write study.yaml and the plan; not if the folder already describes a larger study.
        executor: who executes the runs; by default `jobs` worker processes.
    """
    study, planned = resolved.study, list(resolved.runs if runs is None else runs)
    if describe:
        write_yaml(folder / "study.yaml", study.model_dump(mode="json"))
        write_plan(folder, planned)
    options = replace(resolved.options, trust=trusted())
    with resolved.in_use():
        outcome = run_all(
            planned, folder, study.metrics, jobs=jobs, options=options, progress=progress, executor=executor
        )
        if study.corruptions:
            finished = {k: run.folder(folder) for k, run in enumerate(planned) if k not in outcome.failed}
            tested = {k: path for k, path in finished.items() if (path / ITEMS).exists()}
            threads = max(jobs, 1) * study.conditions.threads  # this process alone has the cores that its workers had
            with torch_threads(threads), computing_on(options.device):
                outcome.unmeasured = _evaluate_corrupted(study, tested, progress)
    return outcome


def _evaluate_corrupted(study: Study, runs: dict[int, Path], progress: RunsProgress) -> dict[int, str]:
    """Evaluate finished runs on corrupted test images; returns the failed runs, with the reason."""
    metrics = ranking(study.metrics)
    metrics = [name for name in metrics if parse(name).kind == "retrieval"] or metrics[:1]
    stages = {path: progress.of_run(number) for number, path in runs.items()}
    failed = record(list(stages), study.corruptions, metrics, stages)
    reasons = {number: failed[path] for number, path in runs.items() if path in failed}
    for number in runs:
        reason = f"on corrupted images: {reasons[number]}" if number in reasons else ""
        progress.on_event(Event("failed" if reason else "done", number, reason))
    return reasons


def keep_earlier(folder: Path, runs: Sequence[PlannedRun], metrics: Sequence[str]) -> str:
    """Move the files of another study's leaderboard in `folder` to a folder of their own; a sentence if there were any.

    More methods, seeds or metrics extend a study: its new leaderboard includes the old one, so nothing is moved. Runs
    are not moved: comparing the earlier study again restores its leaderboard.
    """
    if not (folder / PLAN).is_file() or _extends(folder, runs, metrics):
        return ""
    if (folder / EARLIER).is_symlink():
        raise BadInput(
            f"{folder / EARLIER} is a link: the earlier leaderboard would be moved out of the study's folder."
        )
    kept = next(candidate for number in range(1, 100_000) if not (candidate := folder / EARLIER / str(number)).exists())
    kept.mkdir(parents=True)
    files = [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    for path in sorted(files, key=lambda path: path.name == PLAN):  # last: after an interruption the move is repeated
        os.replace(path, kept / path.name)
    return (
        f"{folder} held the leaderboard of another study (other conditions, rows or metrics), which is now in {kept}. "
        "To keep both in place, give one of them another name: name=..."
    )


def _extends(folder: Path, runs: Sequence[PlannedRun], metrics: Sequence[str]) -> bool:
    """Whether the study has all runs and metrics of the one in the folder."""
    try:
        before, measured = read_plan(folder), read_study(folder / "study.yaml").metrics
    except LevelfieldError:  # unreadable: not this study
        return False
    planned, earlier = ({(run.row, run.spec.folder_name) for run in several} for several in (runs, before))
    return earlier <= planned and set(measured) <= set(metrics)
