"""`levelfield report`: the leaderboard of finished runs, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import bar, console
from levelfield.cli.options import (
    CompactOption,
    DeviceOption,
    FullOption,
    ImagesOption,
    TrustOption,
    option,
    trust_named,
)


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
    compact: CompactOption = False,
    page: Annotated[
        bool | None,
        option("--page/--no-page", "Make report.html even if it would not change; or not at all."),
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
    from levelfield.embedder.devices import usable
    from levelfield.evaluation import split
    from levelfield.reports.finish import report_folder
    from levelfield.studies.specification.locations import images_in

    names = split(metrics or "")
    trust_named(names, figures or [])
    usable(device)
    with bar("making the report") as progress, images_in(root):
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
