"""`levelfield compare`: every method of a study under equal conditions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.compare.choosing import check_backbones_option, choose_study
from levelfield.cli.compare.executors import executor_on, get_ready
from levelfield.cli.compare.under_torchrun import follow, lead
from levelfield.cli.console import StudyBars, bar, console, error_console, looking
from levelfield.cli.importing import without_collection
from levelfield.cli.options import (
    BackbonesOption,
    CacheOption,
    CompactOption,
    DataOption,
    DeviceOption,
    FullOption,
    JobsOption,
    MiniOption,
    OnOption,
    OutOption,
    Overrides,
    PageOption,
    ProcessesOption,
    RayOption,
    RootOption,
    ShipOption,
    SkipOption,
    SmallOption,
    StudyArgument,
    TensorboardOption,
    TimeOption,
    TrustOption,
    WorkersOption,
    processes_override,
    quoted,
    trusted_words,
)
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification, LevelfieldError, MissingData
from levelfield.wording import first_few

if TYPE_CHECKING:
    from levelfield.studies.execution.workers import Outcome
    from levelfield.studies.leaderboard.board import Leaderboard
    from levelfield.studies.runs.spec import PlannedRun
    from levelfield.studies.specification.study import Study

_AUGMENTED = "conditions.augment=light conditions.views=4"


def add_to(app: typer.Typer, panel: str) -> None:
    app.command(
        "compare",
        epilog="Example: levelfield compare demo conditions.dim=64 seeds=5 --jobs 2",
        rich_help_panel=panel,
    )(compare)


def compare(
    study: StudyArgument = None,
    overrides: Overrides = None,
    data: DataOption = None,
    backbones: BackbonesOption = None,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    jobs: JobsOption = 1,
    processes: ProcessesOption = None,
    ray: RayOption = None,
    ship_features: ShipOption = False,
    workers: WorkersOption = None,
    cache: CacheOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print plan, cost and deviations without training.")
    ] = False,
    mini: MiniOption = False,
    small: SmallOption = False,
    on: OnOption = None,
    skip_unreadable: SkipOption = False,
    tensorboard: TensorboardOption = False,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", help="Search settings first: number of trials per method.")
    ] = None,
    time_limit: TimeOption = None,
    compact: CompactOption = False,
    page: PageOption = True,
    full: FullOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Train all methods of a study under equal conditions; rank them."""
    from levelfield.studies.specification.method_names import check_embedded, check_method_names

    study, overrides = trusted_words(study, overrides, data, backbones)
    if backbones is not None:
        check_backbones_option(study, data, overrides, searched=trials is not None or time_limit is not None)
    overrides += processes_override(processes)
    rank, torchrun = torchrun_rank()
    if rank > 0:  # the first process does all that is not training
        return None if dry_run else follow(device)
    if torchrun > 1 and (trials is not None or time_limit is not None):
        raise BadSpecification(f"--trials and --time do not work under torchrun: use --processes {torchrun} instead.")
    if dry_run and time_limit is not None:
        from levelfield.cli.compare.tune import fit_to_time

        overrides, trials = fit_to_time(
            time_limit, study, data, overrides, trials, skip_unreadable, root, jobs, cache, device
        )
    elif not dry_run and (trials is not None or time_limit is not None):
        from levelfield.cli.compare.tune import tune

        shared: dict[str, Any] = {
            "out": out,
            "device": device,
            "jobs": jobs,
            "ray": ray,
            "ship_features": ship_features,
            "workers": workers,
            "cache": cache,
            "full": full,
            "page": page,
            "compact": compact,
        }
        form: dict[str, Any] = {"root": root, "mini": mini, "small": small, "on": on}
        form["skip_unreadable"] = skip_unreadable
        tune(study, overrides, data, trials, time_limit=time_limit, then_compare=True, **shared, **form)
        return None
    form = {"mini": mini, "small": small, "on": on}
    chosen = choose_study(study, overrides, data, skip_unreadable, root, backbones=backbones, **form)
    check_method_names(chosen)
    check_embedded(chosen)
    if ray is not None and max(chosen.conditions.processes, torchrun) > 1:
        raise BadSpecification("Runs over several processes (--processes) cannot be given to Ray: leave out one.")
    if not dry_run:
        at_once, threads = jobs or os.cpu_count() or 1, chosen.conditions.threads
        # in parallel with this process's imports and checks
        get_ready(ray, jobs=at_once, threads=threads, ship_features=ship_features, timed=data is not None)

    # these need torch; the study file was checked without it
    with without_collection():
        from levelfield.cli.compare.plans import print_counted, print_plan
        from levelfield.embedder.devices import capacity, usable
        from levelfield.reports.figures import check_figures, figures_of
        from levelfield.reports.finish import finish
        from levelfield.studies.leaderboard.compact import check_metrics
        from levelfield.studies.leaderboard.earlier import keep_earlier, kept_text
        from levelfield.studies.pipeline import carry_out, prepare
        from levelfield.studies.planning.cost_counted import countable
        from levelfield.studies.planning.cost_measured import estimate
        from levelfield.studies.runs.folder.store import is_finished
        from levelfield.studies.runs.run import Options

    check_figures(figures_of(chosen), chosen)
    if compact:
        check_metrics(chosen.metrics)
    try:
        with looking() as progress:
            counted = dry_run and countable(chosen)  # if anything is missing
            device = usable(device)
            runs = prepare(chosen, device=device, download=not counted, progress=progress)
    except MissingData as error:
        if not counted:
            raise
        print_counted(chosen, str(error))
        return None
    folder = out / chosen.name
    jobs = jobs or capacity(device, chosen.conditions.processes)
    options = Options(device=device, cache_folder=cache, workers=workers, tensorboard=tensorboard)
    if dry_run or data is not None:
        left = [run for run in runs if not is_finished(run.folder(folder), run.spec, chosen.metrics)]
        with bar("timing a few steps of each method") as timed:
            cost = estimate(chosen, left, options=options, jobs=jobs, progress=timed)
        print_plan(chosen, runs, cost, details=dry_run, trials=trials or 1)
    if dry_run:
        return None
    kept = keep_earlier(folder, runs, chosen.metrics)
    if kept is not None:
        error_console.print(kept_text(folder, kept), soft_wrap=True)
    threads = max(run.spec.conditions.threads for run in runs)
    with (
        lead(runs, device) if torchrun > 1 else nullcontext(),
        executor_on(ray, ship_features=ship_features, jobs=jobs, threads=threads) as executor,
        StudyBars([run.title for run in runs]) as bars,
    ):
        jobs = 0 if torchrun > 1 else jobs  # 0: in this process, together with the others
        outcome = carry_out(chosen, runs, folder, jobs=jobs, options=options, progress=bars, executor=executor)
    outcome.refuse_if_all_failed(len(runs))
    with bar("making the page") as progress:
        report = finish(chosen, runs, folder, page=page, compact=compact, progress=progress)
    report.show(console, full=full)
    _print_next(report.leaderboard, chosen, out, data)
    report.show_page(console)
    _fail_for_what_is_missing(report.leaderboard, outcome, runs, folder)
    report.refuse_if_not_drawn()
    return None


def _fail_for_what_is_missing(board: Leaderboard, outcome: Outcome, runs: list[PlannedRun], folder: Path) -> None:
    """Raise if runs are missing: for the exit code, after the finished runs have been shown."""

    problems = []
    if board.missing:
        problems.append(
            f"{len(board.missing)} of {len(runs)} runs did not finish: {first_few(board.missing, '; ')}. See error.txt "
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
    from levelfield.studies.specification.named_code import named_by

    described = quoted(out / study.name / "study.yaml")
    place = "" if out == Path("runs") else f" --out {quoted(out)}"
    trusted = _trusting(named_by(study))
    frozen = all(row.cut in ("", "frozen") for row in board.rows)
    if not board.answer.trained and board.winner.trained and frozen:
        deeper = f"conditions.cut=last-2 {_AUGMENTED if study.conditions.augment == 'none' else ''}".strip()
        return f"levelfield compare {described} {deeper} name={quoted(study.name + '-deeper')}{place}{trusted}"
    return f"levelfield train {described} --method best --all-classes{place}{trusted}"
