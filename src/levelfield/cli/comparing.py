"""Resolve, plan, execute and finish a study on the command line, and print its report."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.cli.console import StudyBars, bar, checking_images, console, error_console
from levelfield.cli.executors import executor_on, get_ready, lead
from levelfield.cli.importing import without_collection
from levelfield.cli.option_groups import Environment, Output, Parallel
from levelfield.cli.options import quoted
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification, MissingData

if TYPE_CHECKING:
    from levelfield.studies.leaderboard.board import Leaderboard
    from levelfield.studies.planning.resolve import ResolvedStudy
    from levelfield.studies.runs.training import Options
    from levelfield.studies.specification.study import Study

_AUGMENTED = "conditions.augment=light conditions.views=4"


def compare_study(
    study: Study,
    data: Path | None,
    environment: Environment,
    parallel: Parallel,
    output: Output,
    *,
    tensorboard: bool = False,
    dry_run: bool = False,
    trials: int = 1,
) -> None:
    """Compare the methods of a study and print the report, or print only the plan. data: `--data`, if given."""
    _, torchrun = torchrun_rank()
    if parallel.ray is not None and max(study.conditions.processes, torchrun) > 1:
        raise BadSpecification("Runs over several processes (--processes) cannot be given to Ray: leave out one.")
    if not dry_run:  # in parallel with this process's imports and checks
        get_ready(parallel, threads=study.conditions.threads, timed=data is not None)

    with without_collection():  # these need torch; the study file was checked without it
        from levelfield.cli.plans import print_plan
        from levelfield.embedder.devices import capacity, usable
        from levelfield.reports.pipeline import check_output, execute, finish_resolved, refuse_if_missing
        from levelfield.studies.runs.training import Options

    check_output(study, compact=output.compact)
    options = Options(usable(environment.device), environment.cache, environment.workers, tensorboard)
    resolved = _resolve_or_count(study, options, dry_run)
    if resolved is None:
        return
    folder, runs = environment.out / study.name, resolved.runs
    jobs = parallel.jobs or capacity(options.device, study.conditions.processes)
    if dry_run or data is not None:
        print_plan(resolved, folder, jobs, details=dry_run, trials=trials)
    if dry_run:
        return
    threads = max(run.spec.conditions.threads for run in runs)
    with (
        lead(options.device) if torchrun > 1 else nullcontext(),
        executor_on(parallel, jobs=jobs, threads=threads) as executor,
        StudyBars([run.title for run in runs]) as bars,
    ):
        jobs = 0 if torchrun > 1 else jobs  # 0: in this process, together with the others
        outcome = execute(resolved, folder, jobs=jobs, progress=bars, executor=executor, warn=_warn)
    with bar("making the page") as progress:
        report = finish_resolved(resolved, folder, page=output.page, compact=output.compact, progress=progress)
    report.show(console, full=output.full)
    _print_next(report.leaderboard, study, environment.out, data)
    report.show_page(console)
    refuse_if_missing(report, outcome, resolved, folder)


def _resolve_or_count(study: Study, options: Options, dry_run: bool) -> ResolvedStudy | None:
    """The resolved study; None if its data or weights are missing and a dry run printed what can be counted."""
    from levelfield.cli.plans import print_counted
    from levelfield.studies.planning.cost_counted import countable
    from levelfield.studies.planning.resolve import resolve

    counted = dry_run and countable(study)
    try:
        with checking_images() as progress:
            return resolve(study, options=options, download=not counted, progress=progress)
    except MissingData as error:
        if not counted:
            raise
        print_counted(study, str(error))
        return None


def _warn(text: str) -> None:
    error_console.print(text, soft_wrap=True)


def _print_next(board: Leaderboard, study: Study, out: Path, data: Path | None) -> None:
    """Print three commands to run next, with real paths."""
    from levelfield.embedder.best import BEST
    from levelfield.registry import references_in
    from levelfield.studies.runs.folder.items import Items

    run = quoted(out / study.name / BEST)
    example = Path(Items.read(Path(board.answer.first_run)).paths[-1])
    named = data or Path(study.data.name)
    photos = quoted(named if named.exists() else example.parent)
    trusted = _trusting(references_in(study.conditions.backbone))
    console.print("\nNext:")
    for command in (
        f"levelfield search {run} --gallery {photos} {quoted(example)}{trusted}",
        f"levelfield embed {run} {photos} --out embeddings.npy{trusted}",
        _third_command(board, study, out),
    ):
        console.print(f"  {command}", soft_wrap=True)


def _trusting(references: Iterable[str]) -> str:
    """The `--trust` options for the files of `file.py:Name` references."""
    files = dict.fromkeys(reference.rpartition(":")[0] for reference in references)
    return "".join(f" --trust {quoted(Path(file))}" for file in files)


def _third_command(board: Leaderboard, study: Study, out: Path) -> str:
    """Train the winner on all classes or, if no trained row is best, train more of the network."""
    from levelfield.registry import references_in

    described = quoted(out / study.name / "study.yaml")
    out_option = "" if out == Path("runs") else f" --out {quoted(out)}"
    ending = out_option + _trusting(references_in(study.model_dump(mode="json")))
    frozen = all(row.cut in ("", "frozen") for row in board.rows)
    if not board.answer.trained and board.winner.trained and frozen:
        deeper = f"conditions.cut=last-2 {_AUGMENTED if study.conditions.augment == 'none' else ''}".strip()
        return f"levelfield compare {described} {deeper} name={quoted(study.name + '-deeper')}{ending}"
    return f"levelfield train {described} --method best --all-classes{ending}"
