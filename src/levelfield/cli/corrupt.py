"""`levelfield corrupt`: the cost of corrupted test images; `levelfield corruptions`: an image under each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli import option_groups as groups
from levelfield.cli.console import bar, say
from levelfield.cli.option_groups import with_groups
from levelfield.cli.options import RunArgument, option, trust_named


@with_groups
def corrupt(
    run: RunArgument,
    only: Annotated[
        str, option("--only", "Comma-separated names (levelfield list corruptions).", panel="Corruptions")
    ] = "all",
    *,
    metrics: groups.MetricOptions,
    starts: groups.StartsOption = 3,
    distance: groups.DistanceOption = "cosine",
    dim: groups.ColumnsOption = None,
    output: groups.OutputOptions,
    model: groups.ModelOptions,
) -> None:
    """Evaluate a run on corrupted test images (lim2022).

    Prints the scores on clean and on corrupted images, and the drop. Every run sees the same corrupted images.
    """
    from levelfield.evaluation.search.distances import distance_called
    from levelfield.reports.evaluation import evaluate_corruptions

    names, settings = _names(only), metrics.settings()
    with bar("embedding") as progress:
        scores = evaluate_corruptions(
            run, names, distance=distance_called(distance), dim=dim, starts=starts, progress=progress, **settings
        )
    output.show(scores)


def corruptions(
    image: Annotated[Path, typer.Argument(help="The image to corrupt.")],
    out: Annotated[Path, option("--out", "Figure file: .png, .pdf or .svg.")] = Path("corruptions.png"),
    only: Annotated[str, option("--only", "Comma-separated names of corruptions.")] = "all",
    side: Annotated[
        int, option("--side", "Resize the shorter side to this many pixels first.", min=16, max=4096)
    ] = 224,
) -> None:
    """Draw one image under each corruption (lim2022)."""
    from levelfield.data import read_image
    from levelfield.reports.figures import check_name
    from levelfield.reports.figures.corrupted_images import draw_corruptions

    check_name(out)
    say(f"Written: {draw_corruptions(read_image(image), _names(only), out, side=side)}")


def _names(only: str) -> tuple[str, ...]:
    """The corruptions that --only names; trusts the files of the user's own."""
    from levelfield.data.corruptions import chosen

    names = chosen(only)
    trust_named(names)
    return names
