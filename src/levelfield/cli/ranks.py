"""`levelfield ranks`: rank methods over several datasets, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import print_results, say
from levelfield.cli.options import JsonOption, TrustOption, option, trust_named


def ranks(
    folders: Annotated[list[Path], typer.Argument(help="Study folders on different data, or with varied data.")],
    metric: Annotated[
        str | None, option("--metric", "Metric to rank by; default: the first metric of the first study.")
    ] = None,
    out: Annotated[Path | None, option("--out", "Folder for ranks.json and the diagram.")] = None,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Rank methods over several datasets (Friedman, Nemenyi)."""
    from levelfield import evaluation
    from levelfield.reports.dataset_ranks import rank_over_datasets

    trust_named(metric)
    ranked = rank_over_datasets(folders, evaluation.parse(metric).name if metric else None)
    paths = ranked.write(out) if out else []
    print_results(ranked, as_json=as_json)
    if paths and not as_json:
        say(f"\nWritten: {', '.join(map(str, paths))}")
