"""`levelfield ranks`: rank methods over several datasets, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import console, say
from levelfield.cli.options import JsonOption, TrustOption
from levelfield.trust import trust


def ranks(
    folders: Annotated[list[Path], typer.Argument(help="Study folders on different data, or with varied data.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Metric to rank by; default: the first metric of the first study.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for ranks.json and the diagram.")] = None,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Rank methods over several datasets (Friedman, Nemenyi)."""
    from levelfield import evaluation
    from levelfield.registry import references_in
    from levelfield.reports.dataset_ranks import rank_over_datasets

    trust(*references_in(metric))
    ranked = rank_over_datasets(folders, evaluation.parse(metric).name if metric else None)
    paths = ranked.write(out) if out else []
    if as_json:
        typer.echo(json.dumps(ranked.as_data(), indent=2, allow_nan=False))
        return
    ranked.show(console)
    if paths:
        say(f"\nWritten: {', '.join(map(str, paths))}")
