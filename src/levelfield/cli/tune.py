"""`levelfield tune`: search the settings of every method with the same budget, on validation classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelfield import studies
from levelfield.cli.choosing import DEFAULT_SHARE, choose_study
from levelfield.cli.console import console
from levelfield.cli.option_groups import Environment, Output, Parallel, Search, Source, with_groups
from levelfield.cli.options import Overrides, StudyArgument, keys_and_values, option, quoted, trusted_words
from levelfield.cli.running import compare_study, search_settings, search_study
from levelfield.errors import BadInput


@with_groups
def tune(
    study: StudyArgument = None,
    overrides: Overrides = None,
    *,
    source: Source,
    search: Search,
    then_compare: Annotated[bool, option("--compare", "Compare the tuned study afterwards.")] = False,
    dry_run: Annotated[bool, option("--dry-run", "Print ranges, number of runs and time without training.")] = False,
    environment: Environment,
    parallel: Parallel,
    output: Output,
) -> None:
    """Search every method's settings with the same budget."""
    if output.compact and not then_compare:
        raise BadInput("--compact needs --compare: it evaluates the compared runs.")
    study, overrides = trusted_words(study, overrides, source.data)
    share = search.validation or (1 / search.folds if search.folds else DEFAULT_SHARE)
    chosen = choose_study(study, overrides, source, trial_share=share)
    if search.ranges:
        ranges = keys_and_values(search.ranges, kind="range", example="'hist.tau=[8, 64, log]'")
        content = chosen.model_dump(mode="json") | {"search": {**chosen.search, **ranges}}
        chosen = studies.parse_study(content, origin="--search")
    if dry_run:
        from levelfield.cli.plans import print_search
        from levelfield.tuning.outline import outline

        options = environment.options()
        jobs = parallel.count(options.device, chosen.conditions.processes)
        print_search(outline(chosen, search_settings(chosen, search)), options, jobs)
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
