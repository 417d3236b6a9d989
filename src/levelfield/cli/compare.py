"""`levelfield compare`: every method of a study under equal conditions."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from levelfield.cli import options
from levelfield.cli.choosing import DEFAULT_SHARE, check_backbones_option, choose_study, photos_recipe
from levelfield.cli.option_groups import Environment, Output, Parallel, Search, Source, with_groups
from levelfield.cli.options import option
from levelfield.cli.running import compare_study, follow_recipe, search_study
from levelfield.distributed.processes import torchrun_rank
from levelfield.errors import BadSpecification


@with_groups
def compare(
    study: options.StudyArgument = None,
    overrides: options.Overrides = None,
    *,
    source: Source,
    backbones: Annotated[
        str | None, option("--backbones", "With --data: compare networks, e.g. tf_efficientnet_lite0,mobilenetv2.")
    ] = None,
    environment: Environment,
    parallel: Parallel,
    processes: options.ProcessesOption = None,
    dry_run: Annotated[bool, option("--dry-run", "Print plan, cost and deviations without training.")] = False,
    tensorboard: options.TensorboardOption = False,
    trials: Annotated[
        int | None, option("--trials", "-n", "Search settings first: number of trials per method.", min=1)
    ] = None,
    time_limit: options.TimeOption = None,
    output: Output,
) -> None:
    """Train all methods of a study under equal conditions; rank them."""
    began = time.monotonic()
    study, overrides = options.trusted_words(study, overrides, source.data, backbones)
    for_photos = study is None and source.data is not None and backbones is None
    if time_limit is not None and (not for_photos or trials is not None):
        raise BadSpecification("--time is for photos: give --data FOLDER, and neither a study nor --trials.")
    if backbones is not None:
        check_backbones_option(study, source.data, overrides, searched=trials is not None)
    overrides += options.processes_override(processes)
    rank, torchrun = torchrun_rank()
    if rank > 0:  # the first process does all that is not training
        if not dry_run:
            from levelfield.embedder.devices import usable
            from levelfield.studies.runs.several_processes import following

            following(usable(environment.device))
        return
    fixed_length = any(word.startswith("conditions.steps=") for word in overrides)
    in_stages = for_photos and trials is None and (time_limit is not None or not fixed_length)
    if time_limit is not None and fixed_length:
        raise BadSpecification("conditions.steps fixes the length of training, and --time chooses it: leave one out.")
    if torchrun > 1 and (in_stages or trials is not None):
        raise BadSpecification(f"--trials and --time do not work under torchrun: use --processes {torchrun} instead.")
    recipe = None
    if in_stages:
        recipe = photos_recipe(time_limit, overrides, source, parallel, environment, spent=time.monotonic() - began)
    if recipe is not None:
        chosen = follow_recipe(recipe, parallel, dry_run=dry_run)
        if chosen is None:
            return
        source, parallel = replace(source, data=None), replace(parallel, jobs=recipe.cores)
    elif trials is not None and not dry_run:
        chosen = choose_study(study, overrides, source, trial_share=DEFAULT_SHARE)
        chosen = search_study(chosen, Search(trials=trials), environment, parallel, compact=output.compact).study
        source = replace(source, data=None)
    else:
        chosen = choose_study(study, overrides, source, backbones=backbones)
    compare_study(
        chosen, source.data, environment, parallel, output, tensorboard=tensorboard, dry_run=dry_run, trials=trials or 1
    )
