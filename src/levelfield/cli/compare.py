"""`levelfield compare`: every method of a study under equal conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from levelfield.cli.choosing import DEFAULT_SHARE, check_backbones_option, choose_study, fit_to_time
from levelfield.cli.option_groups import Environment, Output, Parallel, Search, Source, with_groups
from levelfield.cli.options import (
    Overrides,
    ProcessesOption,
    StudyArgument,
    TensorboardOption,
    TimeOption,
    option,
    processes_override,
    trusted_words,
)
from levelfield.cli.running import compare_study, search_study
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification


@with_groups
def compare(
    study: StudyArgument = None,
    overrides: Overrides = None,
    *,
    source: Source,
    backbones: Annotated[
        str | None, option("--backbones", "With --data: compare networks, e.g. tf_efficientnet_lite0,mobilenetv2.")
    ] = None,
    environment: Environment,
    parallel: Parallel,
    processes: ProcessesOption = None,
    dry_run: Annotated[bool, option("--dry-run", "Print plan, cost and deviations without training.")] = False,
    tensorboard: TensorboardOption = False,
    trials: Annotated[
        int | None, option("--trials", "-n", "Search settings first: number of trials per method.", min=1)
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
        if not dry_run:
            from levelfield.embedder.devices import usable
            from levelfield.studies.runs.several_processes import following

            following(usable(environment.device))
        return
    if torchrun > 1 and searched:
        raise BadSpecification(f"--trials and --time do not work under torchrun: use --processes {torchrun} instead.")
    if time_limit is not None:
        overrides, trials = fit_to_time(time_limit, study, source, overrides, trials, parallel, environment)
    if searched and not dry_run:
        chosen = choose_study(study, overrides, source, trial_share=DEFAULT_SHARE)
        chosen = search_study(chosen, Search(trials=trials), environment, parallel, compact=output.compact).study
        source = replace(source, data=None)
    else:
        chosen = choose_study(study, overrides, source, backbones=backbones)
    compare_study(
        chosen, source.data, environment, parallel, output, tensorboard=tensorboard, dry_run=dry_run, trials=trials or 1
    )
