"""Search the settings of a study on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelfield.cli.choosing import DEFAULT_SHARE
from levelfield.cli.console import bar, console
from levelfield.cli.executors import executor_on, get_ready
from levelfield.cli.option_groups import Environment, Parallel, Search
from levelfield.errors import BadSpecification, MissingData

if TYPE_CHECKING:
    from levelfield.studies.specification.study import Study
    from levelfield.tuning import How, Tuned


def search_study(
    study: Study, search: Search, environment: Environment, parallel: Parallel, *, compact: bool = False
) -> Tuned:
    """Search the settings of a study. compact: whether the comparison after it has a table of compact embeddings."""
    threads = study.conditions.threads
    get_ready(parallel, threads=threads)

    from levelfield.cli.tuning_bars import TuningBars
    from levelfield.embedder.devices import capacity, usable
    from levelfield.reports.pipeline import check_output
    from levelfield.reports.search_results import tuning_table
    from levelfield.studies.runs.training import Options
    from levelfield.tuning import tune

    device = usable(environment.device)
    jobs = parallel.jobs or capacity(device, study.conditions.processes)
    check_output(study, compact=compact)
    how = choose_how(study, search)
    folder = environment.out / f"{study.name}-tuning"
    options = Options(device=device, cache_folder=environment.cache, workers=environment.workers)
    with executor_on(parallel, jobs=jobs, threads=threads) as executor, TuningBars() as progress:
        tuned = tune(study, folder, how, jobs=jobs, options=options, progress=progress, executor=executor)
    return replace(tuned, paths=(*tuned.paths, *tuning_table(tuned.record).write(folder)))


def print_outline(study: Study, search: Search, environment: Environment, parallel: Parallel) -> None:
    """Print what a search would try, and how long it would take on this machine."""
    from levelfield.cli.plans import print_search
    from levelfield.embedder.devices import capacity, usable
    from levelfield.studies.runs.training import Options
    from levelfield.tuning.outline import cost, outline

    options = Options(device=usable(environment.device), cache_folder=environment.cache)
    jobs = parallel.jobs or capacity(options.device, study.conditions.processes)
    searched = outline(study, choose_how(study, search))
    try:
        with bar("timing a few steps of each method") as progress:
            known = cost(searched, options=options, progress=progress)
    except MissingData as error:
        print_search(searched, None, jobs)
        console.print(f"Time unknown: {error}")
        return
    print_search(searched, known, jobs)


def share_of(search: Search) -> float:
    """The share of the training classes that trials hold back; the default for a wrong one, which is refused later."""
    share = search.validation or (1 / search.folds if search.folds else DEFAULT_SHARE)
    return share if 0 < share < 1 else DEFAULT_SHARE


def choose_how(study: Study, search: Search) -> How:
    """The options of a search; raises if they contradict each other."""
    from levelfield.tuning.budget import Budget
    from levelfield.tuning.trials import How, Judge

    trials, validation, folds = search.trials, search.validation, search.folds
    if trials is not None and search.budget is not None:
        raise BadSpecification("--trials and --budget cannot be combined: give one of them.")
    if validation is not None and folds is not None:
        raise BadSpecification("--validation and --folds cannot be combined: give one of them.")
    if trials is not None and trials < 1:
        raise BadSpecification(f"--trials {trials}: must be at least 1; the first trial has the study's own settings.")
    if folds is not None and folds < 2:
        raise BadSpecification(f"--folds {folds}: must be at least 2, or give --validation.")
    if validation is not None and not 0 < validation < 1:
        raise BadSpecification(f"--validation {validation:g}: must be a share between 0 and 1, e.g. 0.25.")
    spent = Budget.parse(search.budget) if search.budget is not None else Budget(trials=trials or 30)
    share = validation or study.protocol.validation or DEFAULT_SHARE
    judge = Judge(folds=folds) if folds is not None else Judge(validation=share, asked=validation is not None)
    return How(spent, judge, search.metric or "", search.sampler or "", search.seed, search.prune)
