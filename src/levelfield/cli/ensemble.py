"""`levelfield ensemble`: join finished runs into one model, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from levelfield.cli.console import bar, print_results
from levelfield.cli.options import ForceOption, JsonOption, RunsArgument, TrustOption, option, trust_named


def ensemble(
    runs: RunsArgument,
    out: Annotated[Path, option("--out", "Folder of the ensemble, a normal run folder.")],
    metrics: Annotated[
        str | None, option("--metrics", "Comma-separated metrics; default: those that all runs have.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Concatenate the embeddings of finished runs; evaluate them.

    Nothing is trained.
    """
    from levelfield.evaluation import split
    from levelfield.reports.ensembles import join_runs

    trust_named(split(metrics or ""))
    with bar("joining") as progress:
        joined = join_runs(runs, out, metrics=metrics, force=force, progress=progress)
    print_results(joined, as_json=as_json)
