"""`levelfield search`: print the nearest images of an index or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli import options
from levelfield.cli.console import bar, note, print_json, say
from levelfield.cli.options import option, quoted
from levelfield.cli.running import without_collection
from levelfield.errors import BadInput

if TYPE_CHECKING:
    from levelfield.shipping.searching import Neighbours


def search(
    run: options.RunOrIndexArgument,
    queries: Annotated[list[Path], typer.Argument(help="Query images.")],
    gallery: Annotated[Path | None, option("--gallery", "Folder (or CSV) to search; not needed for an index.")] = None,
    k: Annotated[int, option("-k", "--neighbours", "Number of neighbours to print.", min=1)] = 5,
    model: Annotated[Path | None, option("--model", "Where the model of an index is now, if it was moved.")] = None,
    workers: options.WorkersOption = None,
    as_json: options.JsonOption = False,
    device: options.DeviceOption = "auto",
    trust_files: options.TrustOption = None,
) -> None:
    """Print the nearest images of an index or a folder."""
    from levelfield.shipping.index.folder import is_index

    index = None
    with without_collection():
        from levelfield.shipping import Index, load
        from levelfield.shipping.searching import search_folder, search_index

        if is_index(run):
            if gallery is not None:
                raise BadInput(f"{run} is an index: leave out --gallery, or give a run to search {gallery}.")
            index = Index.open(run)
        elif gallery is None:
            raise BadInput(
                f"{run} is not an index. Name the photos to search with --gallery FOLDER, or make an index of them: "
                f"levelfield index {quoted(run)} FOLDER --out index"
            )
        elif model is not None:
            raise BadInput("--model belongs to an index; here the model is the first argument.")
        network = load(run, device=device) if index is None else index.model(model)
    with bar("embedding") as progress:
        if gallery is not None:
            neighbours = search_folder(network, gallery, queries, k=k, progress=progress)
        elif index is not None:
            neighbours = search_index(index, network, queries, k=k, progress=progress)
    if as_json:
        print_json(neighbours)
    else:
        _print(neighbours, None if index is None else index.threshold)
    gone = {near["path"] for row in neighbours.values() for near in row if not near.get("exists", True)}
    tell_missing(len(gone), "these photos")


def _print(neighbours: Neighbours, threshold: float | None) -> None:
    for query, nearest in neighbours.items():
        say(f"Nearest to {query}:")
        for near in nearest:
            same = "" if threshold is None else "same  " if near["same"] else "other "
            say(f"  {near['similarity']:.3f}  {same}{near['path']}")
        if not nearest:
            say("  No other image is there to search.")
        elif threshold is not None and not any(near["same"] for near in nearest):
            say(f"  No image of its class: the nearest is below the threshold {threshold:.3f}.")


def tell_missing(count: int, among: str) -> None:
    """Say on stderr how many photos of an index were deleted since."""
    if count:
        note(
            f"{count:,} of {among} no longer {'exists' if count == 1 else 'exist'}. Make the index again with --force."
        )
