"""`levelfield tune`: search the settings of every method with the same budget, on validation classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.compare.choosing import choose_study, fit_photos
from levelfield.cli.compare.compare import compare
from levelfield.cli.compare.executors import executor_on, get_ready
from levelfield.cli.console import bar, console
from levelfield.cli.options import (
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
    RayOption,
    RootOption,
    ShipOption,
    SkipOption,
    SmallOption,
    StudyArgument,
    TimeOption,
    TrustOption,
    WorkersOption,
    quoted,
    trusted_words,
)
from levelfield.errors import BadInput, BadSpecification, MissingData
from levelfield.wording import duration

if TYPE_CHECKING:
    from levelfield.studies.runs.run import Options
    from levelfield.studies.specification.study import Study
    from levelfield.tuning.trials import How

DEFAULT_SHARE = 0.25  # of the training classes


def add_to(app: typer.Typer, panel: str) -> None:
    app.command("tune", epilog="Example: levelfield tune demo --trials 30 --jobs 2 --compare", rich_help_panel=panel)(
        tune
    )


def tune(
    study: StudyArgument = None,
    overrides: Overrides = None,
    data: DataOption = None,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", help="Number of trials per method; default 30.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Instead of trials: 10m, 1h or '200k images' per method.")
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option("--validation", help="Share of the training classes used for validation; default 0.25."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds", help="Instead of --validation: number of class-disjoint folds of the training classes."
        ),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option("--sampler", help="tpe, gp, cma (Optuna), halton, random or grid.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option("--search", help="A range, e.g. 'hist.tau=[8, 64, log]' or 'common.lr=...'; repeatable."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Metric to optimise; default: the one that chooses steps, or the study's first."),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Stop weak trials early and try more settings.")] = False,
    time_limit: TimeOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the sampler and of every trial.")] = 0,
    then_compare: Annotated[bool, typer.Option("--compare", help="Compare the tuned study afterwards.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print ranges, number of runs and time without training.")
    ] = False,
    root: RootOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    jobs: JobsOption = 1,
    ray: RayOption = None,
    ship_features: ShipOption = False,
    workers: WorkersOption = None,
    cache: CacheOption = None,
    mini: MiniOption = False,
    small: SmallOption = False,
    on: OnOption = None,
    skip_unreadable: SkipOption = False,
    compact: CompactOption = False,
    page: PageOption = True,
    full: FullOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Search every method's settings with the same budget."""
    from levelfield.studies.specification.method_names import check_embedded, check_method_names

    if compact and not then_compare:
        raise BadInput("--compact needs --compare: it evaluates the compared runs.")
    study, overrides = trusted_words(study, overrides, data)
    if time_limit is not None:
        overrides, trials = fit_to_time(
            time_limit, study, data, overrides, trials, skip_unreadable, root, jobs, cache, device
        )
    share = validation or (1 / folds if folds else DEFAULT_SHARE)
    share = share if 0 < share < 1 else DEFAULT_SHARE  # a wrong one is refused below
    chosen = choose_study(
        study, overrides, data, skip_unreadable, root, mini=mini, small=small, on=on, trial_share=share
    )
    chosen = with_ranges(chosen, search or [])
    check_method_names(chosen)
    check_embedded(chosen)
    at_once, threads = jobs or os.cpu_count() or 1, chosen.conditions.threads
    if not dry_run:
        get_ready(ray, jobs=at_once, threads=threads, ship_features=ship_features)

    from levelfield.cli.compare.tuning_bars import TuningBars
    from levelfield.embedder.devices import capacity, usable
    from levelfield.reports.search_results import show_tuning, tuning_table, write_tuning
    from levelfield.studies.runs.run import Options
    from levelfield.tuning import tune as search_settings

    device = usable(device)
    at_once = jobs or capacity(device, chosen.conditions.processes)

    if compact:
        from levelfield.studies.leaderboard.compact import check_metrics

        check_metrics(chosen.metrics)
    how = choose_how(chosen, trials, budget, validation, folds, sampler, metric, prune=prune, seed=seed)
    if dry_run:
        print_outline(chosen, how, Options(device=device, cache_folder=cache), at_once)
        return
    folder = out / f"{chosen.name}-tuning"
    options = Options(device=device, cache_folder=cache, workers=workers)
    with (
        executor_on(ray, ship_features=ship_features, jobs=at_once, threads=threads) as executor,
        TuningBars(how) as bars,
    ):
        tuned = search_settings(chosen, folder, how, jobs=at_once, options=options, progress=bars, executor=executor)
    table = tuning_table(tuned.record)
    paths = [*tuned.paths, *write_tuning(table, folder)]
    if then_compare:  # whose report shows the table
        shared: dict[str, Any] = {"out": out, "device": device, "jobs": jobs, "workers": workers, "cache": cache}
        shared |= {"ray": ray, "ship_features": ship_features}
        compare(str(tuned.paths[0]), **shared, full=full, page=page, compact=compact)
        return
    show_tuning(table, console)
    console.print(f"\nWritten: {', '.join(map(str, paths))}", soft_wrap=True)
    place = "" if out == Path("runs") else f" --out {quoted(out)}"
    console.print(f"\nNext:\n  levelfield compare {quoted(tuned.paths[0])}{place}", soft_wrap=True)


def print_outline(study: Study, how: How, options: Options, jobs: int) -> None:
    """Print what a search would try, and how long it would take on this machine."""
    from levelfield.cli.compare.plans import print_search
    from levelfield.studies.specification.named_code import named_by
    from levelfield.trust import trusted, trusting
    from levelfield.tuning.outline import cost, outline

    with trusting(*named_by(study), *(trusted() or ())):
        found = outline(study, how)
        try:
            with bar("timing a few steps of each method") as timed:
                known = cost(found, options=options, progress=timed)
        except MissingData as error:
            print_search(found, None, jobs)
            console.print(f"Time unknown: {error}", highlight=False)
            return
        print_search(found, known, jobs)


def fit_to_time(
    time_limit: str,
    study: str | None,
    data: Path | None,
    overrides: list[str],
    trials: int | None,
    skip_unreadable: bool,
    root: Path | None,
    jobs: int,
    cache: Path | None,
    device: str,
) -> tuple[list[str], int]:
    """Overrides and the number of trials with which the user's photos are compared within the time limit."""
    if data is None or study is not None:
        raise BadSpecification("--time chooses a recipe for photos: give --data FOLDER, and no study.")
    from levelfield.embedder.devices import capacity, usable
    from levelfield.studies.runs.run import Options
    from levelfield.studies.specification.study import parse_study
    from levelfield.tuning.budget import Budget
    from levelfield.tuning.recipe import LADDER, fit_recipe

    limit = Budget.parse(time_limit).seconds
    if limit is None:
        raise BadSpecification(f"--time {time_limit}: a time is needed, e.g. 30m or 2h.")
    device = usable(device)
    content, _, largest = fit_photos(data, overrides, skip_unreadable, root, DEFAULT_SHARE)
    with bar("timing a few recipes") as progress:
        fitted = fit_recipe(
            lambda chosen: parse_study(content, [*chosen, *overrides], origin="the study made for your photos"),
            limit,
            fixed={override.partition("=")[0] for override in overrides},
            largest=largest,
            jobs=jobs or capacity(device),
            options=Options(device=device, cache_folder=cache),
            ladder=LADDER if trials is None else [replace(one, trials=trials) for one in LADDER],
            progress=progress,
        )
    about = duration(fitted.seconds)
    longer = "" if fitted.fits else " Even that may take longer than the limit."
    console.print(f"- Within {time_limit}: {fitted.recipe.text}: about {about}.{longer}", soft_wrap=True)
    fixed = {override.partition("=")[0] for override in overrides}
    return [*fitted.recipe.overrides(fixed), *overrides], fitted.recipe.trials


def with_ranges(study: Study, ranges: Sequence[str]) -> Study:
    """The study with the ranges of `--search KEY=RANGE`."""
    if not ranges:
        return study
    from levelfield.files.plain_yaml import read_yaml
    from levelfield.studies.specification.study import parse_study

    found = {}
    for written in ranges:
        key, equals, text = written.partition("=")
        if not equals or not text.strip():
            raise BadSpecification(f"--search '{written}' is not a range: write it as 'hist.tau=[8, 64, log]'.")
        found[key.strip()] = read_yaml(text, origin=f"--search '{written}'")
    content = study.model_dump(mode="json") | {"search": {**study.search, **found}}
    return parse_study(content, origin="--search")


def choose_how(
    study: Study,
    trials: int | None,
    budget: str | None,
    validation: float | None,
    folds: int | None,
    sampler: str | None,
    metric: str | None,
    *,
    prune: bool,
    seed: int,
) -> How:
    """The options of a search; raises if they contradict each other."""
    from levelfield.tuning.budget import Budget
    from levelfield.tuning.trials import How, Judge

    if trials is not None and budget is not None:
        raise BadSpecification("--trials and --budget cannot be combined: give one of them.")
    if validation is not None and folds is not None:
        raise BadSpecification("--validation and --folds cannot be combined: give one of them.")
    if trials is not None and trials < 1:
        raise BadSpecification(f"--trials {trials}: must be at least 1; the first trial has the study's own settings.")
    if folds is not None and folds < 2:
        raise BadSpecification(f"--folds {folds}: must be at least 2, or give --validation.")
    if validation is not None and not 0 < validation < 1:
        raise BadSpecification(f"--validation {validation:g}: must be a share between 0 and 1, e.g. 0.25.")
    spent = Budget.parse(budget) if budget is not None else Budget(trials=trials or 30)
    share = validation or study.protocol.validation or DEFAULT_SHARE
    judge = Judge(folds=folds) if folds is not None else Judge(validation=share, asked=validation is not None)
    return How(spent, judge, metric or "", sampler or "", seed, prune)
