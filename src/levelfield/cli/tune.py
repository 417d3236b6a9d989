"""`levelfield tune`: search the settings of every method with the same budget, on validation classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.choosing import choose_study, fit_to_time, with_ranges
from levelfield.cli.comparing import compare_study
from levelfield.cli.console import console
from levelfield.cli.option_groups import Environment, Output, Parallel, Search, Source, with_groups
from levelfield.cli.options import Overrides, StudyArgument, TimeOption, quoted, trusted_words
from levelfield.cli.searching import print_outline, search_study, share_of
from levelfield.errors import BadInput


@with_groups
def tune(
    study: StudyArgument = None,
    overrides: Overrides = None,
    *,
    source: Source,
    search: Search,
    time_limit: TimeOption = None,
    then_compare: Annotated[bool, typer.Option("--compare", help="Compare the tuned study afterwards.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print ranges, number of runs and time without training.")
    ] = False,
    environment: Environment,
    parallel: Parallel,
    output: Output,
) -> None:
    """Search every method's settings with the same budget."""
    if output.compact and not then_compare:
        raise BadInput("--compact needs --compare: it evaluates the compared runs.")
    study, overrides = trusted_words(study, overrides, source.data)
    trials = search.trials
    if time_limit is not None:
        overrides, trials = fit_to_time(time_limit, study, source, overrides, trials, parallel.jobs, environment)
    search = replace(search, trials=trials)
    chosen = choose_study(study, overrides, source, trial_share=share_of(search))
    chosen = with_ranges(chosen, search.ranges or [])
    if dry_run:
        print_outline(chosen, search, environment, parallel)
        return
    tuned = search_study(chosen, search, environment, parallel, compact=output.compact)
    if then_compare:  # whose report shows the table
        compare_study(tuned.study, None, environment, parallel, output)
        return

    from levelfield.reports.search_results import tuning_table

    tuning_table(tuned.record).show(console)
    console.print(f"\nWritten: {', '.join(map(str, tuned.paths))}", soft_wrap=True)
    elsewhere = "" if environment.out == Path("runs") else f" --out {quoted(environment.out)}"
    console.print(f"\nNext:\n  levelfield compare {quoted(tuned.paths[0])}{elsewhere}", soft_wrap=True)
