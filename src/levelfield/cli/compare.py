"""`levelfield compare`: every method of a study under equal conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from levelfield.cli.choosing import DEFAULT_SHARE, check_backbones_option, choose_study, fit_to_time
from levelfield.cli.comparing import compare_study
from levelfield.cli.executors import follow
from levelfield.cli.option_groups import Environment, Output, Parallel, Search, Source, with_groups
from levelfield.cli.options import (
    BackbonesOption,
    Overrides,
    ProcessesOption,
    StudyArgument,
    TensorboardOption,
    TimeOption,
    processes_override,
    trusted_words,
)
from levelfield.cli.searching import search_study
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification


@with_groups
def compare(
    study: StudyArgument = None,
    overrides: Overrides = None,
    *,
    source: Source,
    backbones: BackbonesOption = None,
    environment: Environment,
    parallel: Parallel,
    processes: ProcessesOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print plan, cost and deviations without training.")
    ] = False,
    tensorboard: TensorboardOption = False,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", help="Search settings first: number of trials per method.")
    ] = None,
    time_limit: TimeOption = None,
    output: Output,
) -> None:
    """Train all methods of a study under equal conditions; rank them."""
    study, overrides = trusted_words(study, overrides, source.data, backbones)
    searched = trials is not None or time_limit is not None
    if backbones is not None:
        check_backbones_option(study, source.data, overrides, searched=searched)
    overrides += processes_override(processes)
    rank, torchrun = torchrun_rank()
    if rank > 0:  # the first process does all that is not training
        return None if dry_run else follow(environment.device)
    if torchrun > 1 and searched:
        raise BadSpecification(f"--trials and --time do not work under torchrun: use --processes {torchrun} instead.")
    if time_limit is not None:
        overrides, trials = fit_to_time(time_limit, study, source, overrides, trials, parallel.jobs, environment)
    if searched and not dry_run:
        chosen = choose_study(study, overrides, source, trial_share=DEFAULT_SHARE)
        chosen = search_study(chosen, Search(trials=trials), environment, parallel, compact=output.compact).study
        source = replace(source, data=None)
    else:
        chosen = choose_study(study, overrides, source, backbones=backbones)
    compare_study(
        chosen, source.data, environment, parallel, output, tensorboard=tensorboard, dry_run=dry_run, trials=trials or 1
    )
    return None
