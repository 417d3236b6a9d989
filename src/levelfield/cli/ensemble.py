"""`levelfield ensemble`: join finished runs into one model, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import bar, console
from levelfield.cli.options import ForceOption, JsonOption, RunsArgument, TrustOption
from levelfield.trust import trust


def ensemble(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder of the ensemble, a normal run folder.")],
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Comma-separated metrics; default: those that all runs have.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Concatenate the embeddings of finished runs; evaluate them.

    Nothing is trained.
    """
    from levelfield.evaluation import split
    from levelfield.registry import references_in
    from levelfield.reports.ensembles import join_runs

    trust(*references_in(split(metrics or "")))
    with bar("joining") as progress:
        joined = join_runs(runs, out, metrics=metrics, force=force, progress=progress)
    if as_json:
        typer.echo(json.dumps(joined.as_data(), indent=2, allow_nan=False))
    else:
        joined.show(console)
