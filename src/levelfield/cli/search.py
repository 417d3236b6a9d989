"""`levelfield search`: print the nearest images of an index or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import bar, note, print_json, say
from levelfield.cli.options import (
    DeviceOption,
    JsonOption,
    RunOrIndexArgument,
    TrustOption,
    WorkersOption,
    option,
    quoted,
)
from levelfield.cli.running import without_collection
from levelfield.errors import BadInput

if TYPE_CHECKING:
    from levelfield.shipping.searching import Neighbours


def search(
    run: RunOrIndexArgument,
    queries: Annotated[list[Path], typer.Argument(help="Query images.")],
    gallery: Annotated[Path | None, option("--gallery", "Folder (or CSV) to search; not needed for an index.")] = None,
    k: Annotated[int, option("-k", "--neighbours", "Number of neighbours to print.", min=1)] = 5,
    model: Annotated[Path | None, option("--model", "Where the model of an index is now, if it was moved.")] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Print the nearest images of an index or a folder."""
    from levelfield.shipping.index.folder import is_index

    if is_index(run):
        if gallery is not None:
            raise BadInput(f"{run} is an index: leave out --gallery, or give a run to search {gallery}.")
        neighbours, threshold = _search_index(run, model, queries, k)
    elif gallery is None:
        raise BadInput(
            f"{run} is not an index. Name the photos to search with --gallery FOLDER, or make an index of them: "
            f"levelfield index {quoted(run)} FOLDER --out index"
        )
    elif model is not None:
        raise BadInput("--model belongs to an index; here the model is the first argument.")
    else:
        neighbours, threshold = _search_folder(run, gallery, queries, k, device), None
    if as_json:
        print_json(neighbours)
    else:
        _print(neighbours, threshold)


def _search_folder(run: Path, gallery: Path, queries: list[Path], k: int, device: str) -> Neighbours:
    with without_collection():
        from levelfield.shipping import load
        from levelfield.shipping.searching import search_folder

        model = load(run, device=device)
    with bar("embedding") as progress:
        return search_folder(model, gallery, queries, k=k, progress=progress)


def _search_index(
    folder: Path, model_folder: Path | None, queries: list[Path], k: int
) -> tuple[Neighbours, float | None]:
    with without_collection():
        from levelfield.shipping import Index
        from levelfield.shipping.searching import search_index

        index = Index.open(folder)
        model = index.model(model_folder)
    with bar("embedding") as progress:
        neighbours = search_index(index, model, queries, k=k, progress=progress)
    tell_missing(
        len({near["path"] for row in neighbours.values() for near in row if not near["exists"]}), "these photos"
    )
    return neighbours, index.threshold


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
