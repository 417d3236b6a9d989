"""`levelfield corruptions`: draw one image under every corruption."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.console import say


def sheet(
    image: Annotated[Path, typer.Argument(help="The image to corrupt.")],
    out: Annotated[Path, typer.Option("--out", help="Figure file: .png, .pdf or .svg.")] = Path("corruptions.png"),
    only: Annotated[str, typer.Option("--only", help="Comma-separated names of corruptions.")] = "all",
    side: Annotated[
        int, typer.Option("--side", min=16, max=4096, help="Resize the shorter side to this many pixels first.")
    ] = 224,
) -> None:
    """Draw one image under each corruption (lim2022)."""
    from levelfield.data import corruptions, read_image
    from levelfield.registry import references_in
    from levelfield.reports.figures import check_name
    from levelfield.reports.figures.corrupted_images import draw_corruptions
    from levelfield.trust import trust

    check_name(out)
    names = corruptions.chosen(only)
    trust(*references_in(names))
    path = draw_corruptions(read_image(image), names, out, side=side)
    say(f"Written: {path}")
