"""Execute the runs of a resolved study, and evaluate them on corrupted images if it asks for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from levelfield.embedder.devices import computing_on
from levelfield.evaluation import parse
from levelfield.evaluation.metrics.registry import ranking
from levelfield.files.writing import write_text
from levelfield.studies.execution.events import SILENT_RUNS, Event, RunsProgress
from levelfield.studies.execution.executor import Executor
from levelfield.studies.execution.workers import Outcome, WorkerProcesses, run_all
from levelfield.studies.planning.resolve import ResolvedStudy
from levelfield.studies.runs.folder.store import write_plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.trust import trusted


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
        content = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_text(folder / "study.yaml", content)
        write_plan(folder, planned)
    options = replace(resolved.options, trust=trusted())
    with resolved.in_use():
        outcome = run_all(
            planned, folder, study.metrics, jobs=jobs, options=options, progress=progress, executor=executor
        )
        if study.corruptions:
            with computing_on(options.device):
                executor = executor or WorkerProcesses(jobs)
                outcome.unmeasured = _corrupt(resolved, planned, folder, outcome, executor, progress)
    return outcome


def _corrupt(
    resolved: ResolvedStudy,
    runs: list[PlannedRun],
    folder: Path,
    outcome: Outcome,
    executor: Executor,
    progress: RunsProgress,
) -> dict[int, str]:
    """Evaluate every finished run on corrupted test images; returns the failed runs, with the reason."""
    metrics = ranking(resolved.study.metrics)
    metrics = [name for name in metrics if parse(name).kind == "retrieval"] or metrics[:1]
    folders = {run.folder(folder): number for number, run in enumerate(runs) if number not in outcome.failed}
    tested = {path: number for path, number in folders.items() if (path / "items.csv").exists()}
    stages = {path: progress.of_run(number) for path, number in tested.items()}
    failed = executor.record(list(tested), resolved.study.corruptions, metrics, stages)
    for path, number in tested.items():
        event = Event("failed", number, f"on corrupted images: {failed[path]}") if path in failed else None
        progress.on_event(event or Event("done", number))
    return {tested[path]: reason for path, reason in failed.items()}
