"""`levelfield embed` and `search`: use the model of a finished run."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.console import bar, console, error_console, is_quiet
from levelfield.cli.importing import without_collection
from levelfield.cli.options import (
    DeviceOption,
    ModelArgument,
    SearchedArgument,
    SkipOption,
    TrustOption,
    WorkersOption,
    quoted,
)
from levelfield.errors import BadInput, UnreadableImage
from levelfield.files.writing import write_text, write_whole
from levelfield.wording import first_few, plural

if TYPE_CHECKING:
    import numpy as np


def add_to(app: typer.Typer, panel: str) -> None:
    app.command("embed", epilog="Example: levelfield embed runs/demo/best photos --out e.npy", rich_help_panel=panel)(
        embed
    )
    app.command("search", epilog="Example: levelfield search index query.jpg", rich_help_panel=panel)(search)


def embed(
    run: ModelArgument,
    images: Annotated[list[Path], typer.Argument(help="Folders (searched recursively), CSV files or images.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Output file: .npy (paths in a .txt file beside it), or .csv (one line per image). "
            "Default: NAME.embeddings.npy, after the embedded folder or file.",
        ),
    ] = None,
    normalize: Annotated[
        bool, typer.Option("--normalize/--raw", help="Unit-length rows, or raw rows of the head.")
    ] = True,
    skip_unreadable: SkipOption = False,
    workers: WorkersOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Embed images with the model of a run."""
    target = _target(out, images)
    listing = target.with_name(target.stem + ".paths.txt") if target.suffix == ".npy" else None
    _keep_existing([file for file in (target, listing) if file is not None], force)
    paths = list(dict.fromkeys(path for place in images for path in find_images(place)))

    import numpy as np

    from levelfield.shipping import load

    model = load(run, device=device)
    if skip_unreadable:
        paths = readable(paths)
    try:
        with bar("embedding") as progress:
            rows = model.embed(paths, normalize=normalize, progress=progress)
    except UnreadableImage as error:
        raise BadInput(f"{error} To skip such images: --skip-unreadable") from error
    if listing is None:
        write_text(target, "".join(_csv_lines(paths, rows)))
    else:
        write_whole(target, lambda file: np.save(file, rows))
        write_text(listing, "".join(f"{path}\n" for path in paths))
    beside = "" if listing is None else f"; paths: {listing}"
    console.print(f"{len(rows):,} embeddings of {rows.shape[1]} dimensions: {target}{beside}")


def _target(out: Path | None, images: list[Path]) -> Path:
    """The output file: `out`, or a name made from the only embedded folder or file."""
    if out is None:
        named = Path(os.path.realpath(images[0])).stem if len(images) == 1 else ""
        return Path(f"{named}.embeddings.npy" if named else "embeddings.npy")
    if not out.name:
        raise BadInput(f"--out {str(out)!r} is not a file name: give one, such as embeddings.npy.")
    if out.suffix in (".npy", ".csv"):
        return out
    if not out.suffix:
        return out.with_name(out.name + ".npy")
    raise BadInput(f"--out {out}: the file name must end with .npy or .csv. Did you mean {out.with_suffix('.npy')}?")


def _keep_existing(files: list[Path], force: bool) -> None:
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise BadInput(
            f"{first_few(there)} already exists. Choose another file with --out, or replace it with --force."
        )


def readable(paths: list[Path]) -> list[Path]:
    """The images that can be decoded; the others are printed."""
    from levelfield.data.checks.readable import unreadable

    with bar("checking images") as progress:
        failures = unreadable(paths, progress=progress)
    if len(failures) == len(paths):
        raise BadInput(f"None of {plural(len(paths), 'image', 'images')} can be read. The first error: {failures[0]}")
    if failures:
        names = first_few([str(paths[position]) for position in failures])
        error_console.print(f"Skipped {plural(len(failures), 'unreadable image', 'unreadable images')}: {names}.")
    return [path for position, path in enumerate(paths) if position not in failures]


def _csv_lines(paths: list[Path], rows: np.ndarray) -> Iterator[str]:
    """A header, then one line per image; nine digits restore a float32 exactly."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", *range(rows.shape[1])])
    for path, row in zip(paths, rows, strict=True):
        writer.writerow([path, *(f"{value:.9g}" for value in row)])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def search(
    run: SearchedArgument,
    queries: Annotated[list[Path], typer.Argument(help="Query images.")],
    gallery: Annotated[
        Path | None, typer.Option("--gallery", help="Folder (or CSV) to search; not needed for an index.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--neighbours", min=1, help="Number of neighbours to print.")] = 5,
    model: Annotated[
        Path | None, typer.Option("--model", help="Where the model of an index is now, if it was moved.")
    ] = None,
    workers: WorkersOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: DeviceOption = "auto",
    trust_files: TrustOption = None,
) -> None:
    """Print the nearest images of an index or a folder."""
    from levelfield.shipping.index.folder import is_index

    if is_index(run):
        if gallery is not None:
            raise BadInput(f"{run} is an index: leave out --gallery, or give a run to search {gallery}.")
        found, threshold = _in_index(run, model, queries, k)
    elif gallery is None:
        raise BadInput(
            f"{run} is not an index. Name the photos to search with --gallery FOLDER, or make an index of them: "
            f"levelfield index {quoted(run)} FOLDER --out index"
        )
    elif model is not None:
        raise BadInput("--model belongs to an index; here the model is the first argument.")
    else:
        found, threshold = _in_gallery(run, gallery, queries, k, device), None
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for name, neighbours in found.items():
        console.print(f"Nearest to {name}:", highlight=False, soft_wrap=True)
        for one in neighbours:
            same = "" if threshold is None else "same  " if one["same"] else "other "
            console.print(f"  {one['similarity']:.3f}  {same}{one['path']}", highlight=False, soft_wrap=True)
        if not neighbours:
            console.print("  No other image is there to search.", highlight=False, soft_wrap=True)
        elif threshold is not None and not any(one["same"] for one in neighbours):
            message = f"  No image of its class: the nearest is below the threshold {threshold:.3f}."
            console.print(message, highlight=False, soft_wrap=True)


def _in_gallery(run: Path, gallery: Path, queries: list[Path], k: int, device: str) -> dict[str, list[dict[str, Any]]]:
    """The nearest images of each query in a folder."""
    import numpy as np

    from levelfield.shipping import load, remembered

    with without_collection():
        model = load(run, device=device)
    paths = find_images(gallery)
    asked = [path for query in queries for path in find_images(query)]
    with bar("embedding") as progress:
        rows = remembered(model, paths, progress=progress)
        similarity = model.embed(asked, exact=False, progress=progress) @ rows.T
    found = {}
    for query, scores in zip(asked, similarity, strict=True):
        own = [i for i, path in enumerate(paths) if path.resolve() == query.resolve()]
        scores[own] = -np.inf  # an image is not its own neighbour
        order = np.argsort(-scores, kind="stable")[: min(k, len(paths) - len(own))]
        found[str(query)] = [{"path": str(paths[i]), "similarity": round(float(scores[i]), 4)} for i in order]
    return found


def _in_index(
    folder: Path, place: Path | None, queries: list[Path], k: int
) -> tuple[dict[str, list[dict[str, Any]]], float | None]:
    """The nearest images of each query in an index, and its threshold."""
    from levelfield.shipping import Index

    index = Index.open(folder)
    asked = [path for query in queries for path in find_images(query)]
    with without_collection():
        model = index.model(place)
    with bar("embedding") as progress:
        rows = model.embed(asked, exact=False, progress=progress)
    found = {}
    for query, positions, cosines in zip(asked, *index.search(rows, k + 1), strict=True):
        near = [
            {
                "path": str(index.paths[position]),
                "class": index.content.items[position].label,
                "similarity": round(float(cosine), 4),
                "same": None if index.threshold is None else bool(cosine >= index.threshold),
                "exists": index.paths[position].is_file(),
            }
            for position, cosine in zip(positions, cosines, strict=True)
            if position >= 0 and not _is_file(index.paths[position], query)  # an image is not its own neighbour
        ]
        found[str(query)] = near[:k]
    missing = {one["path"] for near in found.values() for one in near if not one["exists"]}
    tell_missing(len(missing), "these photos")
    return found, index.threshold


def tell_missing(count: int, among: str) -> None:
    """Say on stderr how many photos of an index were deleted since."""
    if count and not is_quiet():
        message = f"{count:,} of {among} no longer {'exists' if count == 1 else 'exist'}."
        error_console.print(f"{message} Make the index again with --force.", soft_wrap=True)


def _is_file(path: Path, query: Path) -> bool:
    return path.name == query.name and path.resolve() == query.resolve()


def find_images(place: Path) -> list[Path]:
    """All images under a folder in a fixed order, the images of a CSV, or one image file."""
    from levelfield.data import create, is_image
    from levelfield.data.checks.readable import check_names

    if place.is_file() and place.suffix.lower() == ".csv":
        return list(create(place).paths)
    if place.is_file():
        check_names([place])
        return [place]
    if not place.exists():
        raise BadInput(f"File or folder not found: {place}")
    # os.walk skips folders that are unreadable or vanish meanwhile
    files = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
    found = sorted(path for path in files if is_image(path) and path.is_file())
    if not found:
        raise BadInput(f"No images found under {place}.")
    check_names(found)
    return found
