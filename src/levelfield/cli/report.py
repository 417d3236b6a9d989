"""`levelfield report`, `ranks` and `ensemble`: what finished runs give without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield import evaluation
from levelfield.cli import options
from levelfield.cli.console import bar, console, print_results, say
from levelfield.cli.options import option, trust_named


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a study, such as runs/demo.")],
    out: Annotated[Path | None, option("--out", "Folder for the tables; default: the study's folder.")] = None,
    metrics: Annotated[str | None, option("--metrics", "Comma-separated metrics.")] = None,
    figures: Annotated[
        list[str] | None, option("--figure", "Figure to draw; repeatable. See `levelfield list figures`.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        option("--beside", "Another study that the figures show, too, e.g. on other data; repeatable."),
    ] = None,
    leaks: Annotated[bool, option("--leaks", "Find and draw near-duplicates across the split.")] = False,
    compact: options.CompactOption = False,
    page: Annotated[
        bool | None, option("--page/--no-page", "Make report.html even if it would not change; or not at all.")
    ] = None,
    root: options.ImagesOption = None,
    full: options.FullOption = False,
    device: options.DeviceOption = "auto",
    trust_files: options.TrustOption = None,
) -> None:
    """Print the leaderboard of finished runs; write its files.

    Nothing is trained. The files are CSV, JSON, Markdown and report.html, a page with the images.
    Without --figure, the study's own figures are drawn.
    """
    from levelfield.embedder.devices import usable
    from levelfield.reports.finish import report_folder

    names = evaluation.split(metrics or "")
    trust_named(names, figures or [])
    usable(device)
    with bar("making the report") as progress:
        finished = report_folder(
            folder,
            out=out,
            metrics=names,
            figures=figures or (),
            beside=beside or (),
            near_leaks=leaks,
            compact=compact,
            page=page is not False,
            again=page is True,
            progress=progress,
        )
    finished.show(console, full=full)
    finished.show_page(console)
    finished.refuse_if_not_drawn()


def ranks(
    folders: Annotated[list[Path], typer.Argument(help="Study folders on different data, or with varied data.")],
    metric: Annotated[
        str | None, option("--metric", "Metric to rank by; default: the first metric of the first study.")
    ] = None,
    out: Annotated[Path | None, option("--out", "Folder for ranks.json and the diagram.")] = None,
    as_json: options.JsonOption = False,
    trust_files: options.TrustOption = None,
) -> None:
    """Rank methods over several datasets (Friedman, Nemenyi)."""
    from levelfield.reports.dataset_ranks import DatasetRanks
    from levelfield.studies.leaderboard.across import across

    trust_named(metric)
    ranked = DatasetRanks(across(folders, evaluation.parse(metric).name if metric else None))
    paths = ranked.write(out) if out else []
    print_results(ranked, as_json=as_json)
    if paths and not as_json:
        say(f"\nWritten: {', '.join(map(str, paths))}")


def ensemble(
    runs: options.RunsArgument,
    out: Annotated[Path, option("--out", "Folder of the ensemble, a normal run folder.")],
    metrics: Annotated[
        str | None, option("--metrics", "Comma-separated metrics; default: those that all runs have.")
    ] = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    trust_files: options.TrustOption = None,
) -> None:
    """Concatenate the embeddings of finished runs; evaluate them.

    Nothing is trained.
    """
    from levelfield.reports.ensembles import join_runs

    trust_named(evaluation.split(metrics or ""))
    with bar("joining") as progress:
        joined = join_runs(runs, out, metrics=metrics, force=force, progress=progress)
    print_results(joined, as_json=as_json)
