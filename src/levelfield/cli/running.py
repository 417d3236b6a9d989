"""Compare or search a study on the command line: in worker processes, with Ray (`--ray`), or under torchrun."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield import studies
from levelfield.cli.choosing import DEFAULT_SHARE
from levelfield.cli.console import StudyBars, bar, bars, checking_images, console, error_console, is_quiet
from levelfield.cli.option_groups import Environment, Output, Parallel, Search
from levelfield.cli.options import quoted
from levelfield.distributed import processes
from levelfield.errors import BadSpecification, MissingData
from levelfield.wording import duration, plural

if TYPE_CHECKING:
    from levelfield.studies.execution.executor import Executor
    from levelfield.studies.runs.training import Options
    from levelfield.tuning import SearchSettings, Tuned
    from levelfield.tuning.recipe import Recipe

_ADDRESS = re.compile(r"auto|local|ray://\S+|(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d+")
_AUGMENTED = " conditions.augment=light conditions.views=4"


def compare_study(
    study: studies.Study,
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
    _, torchrun = processes.torchrun_rank()
    if parallel.ray is not None and max(study.conditions.processes, torchrun) > 1:
        raise BadSpecification("Runs over several processes (--processes) cannot be given to Ray: leave out one.")
    if not dry_run:  # in parallel with this process's imports and checks
        get_ready(parallel)

    with without_collection():  # these need torch; the study file was checked without it
        from levelfield.cli.plans import print_plan
        from levelfield.reports.pipeline import check_output, execute, finish_resolved, refuse_if_missing
        from levelfield.studies.runs.several_processes import leading

    check_output(study, compact=output.compact)
    options = environment.options(tensorboard=tensorboard)
    resolved = _resolve_or_count(study, options, dry_run)
    if resolved is None:
        return
    folder, runs = environment.out / study.name, resolved.runs
    jobs = parallel.count(options.device, study.conditions.processes)
    if dry_run or data is not None:
        print_plan(resolved, folder, jobs, details=dry_run, trials=trials)
    if dry_run:
        return
    threads = max(run.spec.conditions.threads for run in runs)
    with (
        leading(options.device) if torchrun > 1 else nullcontext(),
        executor_on(parallel, jobs=jobs, threads=threads) as executor,
        bars() as drawn,
    ):
        jobs = 0 if torchrun > 1 else jobs  # 0: in this process, together with the others
        progress = StudyBars(drawn, [run.title for run in runs])
        warn = partial(error_console.print, soft_wrap=True)
        outcome = execute(resolved, folder, jobs=jobs, progress=progress, executor=executor, warn=warn)
    with bar("making the page") as page_progress:
        report = finish_resolved(resolved, folder, page=output.page, compact=output.compact, progress=page_progress)
    report.show(console, full=output.full)
    _print_next(report.leaderboard, study, environment.out, data)
    report.show_page(console)
    refuse_if_missing(report, outcome, resolved, folder)


def search_study(
    study: studies.Study, search: Search, environment: Environment, parallel: Parallel, *, compact: bool = False
) -> Tuned:
    """Search the settings of a study. compact: whether the comparison after it has a table of compact embeddings."""
    get_ready(parallel)

    from levelfield.cli.tuning_bars import TuningBars
    from levelfield.reports.pipeline import check_output
    from levelfield.reports.search_results import tuning_table
    from levelfield.tuning import tune

    options = environment.options()
    jobs = parallel.count(options.device, study.conditions.processes)
    check_output(study, compact=compact)
    settings = search_settings(study, search)
    folder = environment.out / f"{study.name}-tuning"
    with executor_on(parallel, jobs=jobs, threads=study.conditions.threads) as executor, bars(transient=True) as drawn:
        progress = TuningBars(drawn)
        tuned = tune(study, folder, settings, jobs=jobs, options=options, progress=progress, executor=executor)
    return replace(tuned, paths=(*tuned.paths, *tuning_table(tuned.record).write(folder)))


def follow_recipe(recipe: Recipe, parallel: Parallel, *, dry_run: bool) -> studies.Study | None:
    """Print the stages of a recipe and carry them out; returns the study of the last one. None after a dry run."""
    if not recipe.judges:
        console.print(
            f"- None of the {recipe.classes} training classes can be held out, so nothing can say whether training "
            "helps: nothing is trained, however much time there is. With 16 classes or more, half of which train, the "
            "network would be."
        )
        return None if dry_run else recipe.untrained_study
    with bar("timing a training step"):
        plan = recipe.plan(keep=not dry_run)
    if not is_quiet():
        console.print(f"Within {duration(plan.limit)}, on {plural(recipe.cores, 'core', 'cores')}:")
        for line in plan.lines():
            console.print(f"  {line}", soft_wrap=True)
    if dry_run:
        return None
    get_ready(parallel)
    from levelfield.cli.tuning_bars import RecipeBars

    with executor_on(parallel, jobs=recipe.cores, threads=1) as executor, bars(transient=True) as drawn:
        recipe.executor, recipe.progress = executor, RecipeBars(drawn, plan.limit, recipe.elapsed)
        return recipe.carry_out(plan)


def search_settings(study: studies.Study, search: Search) -> SearchSettings:
    """The options of a search; raises if they contradict each other."""
    from levelfield.tuning import Budget, Judge, SearchSettings

    trials, validation, folds = search.trials, search.validation, search.folds
    for first, second in (("trials", "budget"), ("validation", "folds")):
        if getattr(search, first) is not None and getattr(search, second) is not None:
            raise BadSpecification(f"--{first} and --{second} cannot be combined: give one of them.")
    budget = Budget.parse(search.budget) if search.budget is not None else Budget(trials=trials or 30)
    share = validation or study.protocol.validation or DEFAULT_SHARE
    by_share = Judge(validation=share, share_is_explicit=validation is not None)
    judge = by_share if folds is None else Judge(folds=folds)
    return SearchSettings(budget, judge, search.metric or "", search.sampler or "", search.seed)


def with_ray_address(arguments: list[str]) -> list[str]:
    """`--ray` without an address is `--ray=`: the next word may be a study or an override.

    >>> with_ray_address(["compare", "--ray", "demo", "seeds=5"])
    ['compare', '--ray=', 'demo', 'seeds=5']
    >>> with_ray_address(["compare", "demo", "--ray", "127.0.0.1:6379"])
    ['compare', 'demo', '--ray', '127.0.0.1:6379']
    """
    after = [*arguments[1:], ""]
    return [
        "--ray=" if word == "--ray" and not _ADDRESS.fullmatch(following) else word
        for word, following in zip(arguments, after, strict=False)
    ]


def get_ready(parallel: Parallel) -> None:
    """Start the server of worker processes before it is needed, and refuse an address where no Ray answers."""
    if parallel.ray is None:
        processes.warm_up()
        return
    from levelfield.distributed.ray_connection import LOCAL, address_of, check_address, import_ray

    import_ray()
    address = address_of(parallel.ray)
    if address != LOCAL:
        check_address(address)


def executor_on(parallel: Parallel, *, jobs: int, threads: int) -> AbstractContextManager[Executor | None]:
    """The executor that `--ray` chooses; None: worker processes."""
    if parallel.ray is None:
        return nullcontext()
    from levelfield.studies.execution.cluster.on_ray import on_ray

    return on_ray(parallel.ray, jobs=jobs, threads=threads)


@contextmanager
def without_collection() -> Iterator[None]:
    """Context for imports of torch and timm: collection would go through their modules many times and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _resolve_or_count(study: studies.Study, options: Options, dry_run: bool) -> studies.ResolvedStudy | None:
    """The resolved study; None if its data or weights are missing and a dry run printed what can be counted."""
    from levelfield.cli.plans import print_counted
    from levelfield.studies.planning.cost_counted import countable

    counted = dry_run and countable(study)
    try:
        with checking_images() as progress:
            return studies.resolve(study, options=options, download=not counted, progress=progress)
    except MissingData as error:
        if not counted:
            raise
        print_counted(study, str(error))
        return None


def _print_next(board: studies.Leaderboard, study: studies.Study, out: Path, data: Path | None) -> None:
    """Print three commands to run next, with real paths: search, embed, and train the best method on all classes, or
    more of the network, if no trained row is best."""
    from levelfield.embedder.best import BEST
    from levelfield.registry import references_in
    from levelfield.studies.runs.folder.items import Items

    run = quoted(out / study.name / BEST)
    example = Path(Items.read(Path(board.recommended.first_run)).paths[-1])
    named = data or Path(study.data.name)
    photos = quoted(named if named.exists() else example.parent)
    trust_backbone = _trust_options(references_in(study.conditions.backbone))
    described = quoted(out / study.name / "study.yaml")
    options = "" if out == Path("runs") else f" --out {quoted(out)}"
    options += _trust_options(references_in(study.model_dump(mode="json")))
    third = f"levelfield train {described} --method best --all-classes{options}"
    frozen = all(row.cut in ("", "frozen") for row in board.rows)
    if not board.recommended.trained and board.best_trained.trained and frozen:
        deeper = f"conditions.cut=last-2{_AUGMENTED if study.conditions.augment == 'none' else ''}"
        third = f"levelfield compare {described} {deeper} name={quoted(study.name + '-deeper')}{options}"
    console.print("\nNext:")
    for command in (
        f"levelfield search {run} --gallery {photos} {quoted(example)}{trust_backbone}",
        f"levelfield embed {run} {photos} --out embeddings.npy{trust_backbone}",
        third,
    ):
        console.print(f"  {command}", soft_wrap=True)


def _trust_options(references: Iterable[str]) -> str:
    """The `--trust` options for the files of `file.py:Name` references."""
    files = dict.fromkeys(reference.rpartition(":")[0] for reference in references)
    return "".join(f" --trust {quoted(Path(file))}" for file in files)
