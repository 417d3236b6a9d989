"""`levelfield report`: the leaderboard of finished runs, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import bar, console
from levelfield.cli.options import CompactOption, DeviceOption, FullOption, ImagesOption, TrustOption


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a study, such as runs/demo.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the tables; default: the study's folder.")
    ] = None,
    metrics: Annotated[str | None, typer.Option("--metrics", help="Comma-separated metrics.")] = None,
    figures: Annotated[
        list[str] | None, typer.Option("--figure", help="Figure to draw; repeatable. See `levelfield list figures`.")
    ] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--beside", help="Another study that the figures show, too, e.g. on other data; repeatable."),
    ] = None,
    leaks: Annotated[bool, typer.Option("--leaks", help="Find and draw near-duplicates across the split.")] = False,
    compact: CompactOption = False,
    page: Annotated[
        bool | None,
        typer.Option("--page/--no-page", help="Make report.html even if it would not change; or not at all."),
    ] = None,
    root: ImagesOption = None,
    full: FullOption = False,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Print the leaderboard of finished runs; write its files.

    Nothing is trained. The files are CSV, JSON, Markdown and report.html, a page with the images.
    Without --figure, the study's own figures are drawn.
    """
    from levelfield import evaluation
    from levelfield.embedder.devices import usable
    from levelfield.registry import references_in
    from levelfield.reports.figures import check_figures, figures_of
    from levelfield.reports.finish import finish
    from levelfield.studies.leaderboard.compact import check_metrics
    from levelfield.studies.runs.folder.store import read_plan
    from levelfield.studies.specification.locations import images_in
    from levelfield.studies.specification.yaml_file import read_study
    from levelfield.trust import trust

    trust(*references_in([evaluation.split(metrics or ""), figures or []]))
    usable(device)
    runs = read_plan(folder)
    study = read_study(folder / "study.yaml")
    chosen = tuple(evaluation.split(metrics)) if metrics else study.metrics
    for name in chosen:
        evaluation.parse(name)
    if compact:
        check_metrics(chosen)
    wanted = check_figures(figures or figures_of(study))
    with bar("making the report") as progress, images_in(root):
        made = finish(
            study,
            runs,
            folder,
            out=out,
            metrics=chosen if metrics else (),
            figures=wanted,
            beside=beside or (),
            near_leaks=leaks,
            compact=compact,
            page=page is not False,
            again=page is True,
            progress=progress,
        )
    made.show(console, full=full)
    made.show_page(console)
    made.refuse_if_not_drawn()
