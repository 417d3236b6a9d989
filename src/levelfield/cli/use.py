"""`levelfield embed` and `search`: a finished run is a usable model."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.console import bar, console, error_console
from levelfield.cli.options import RunArgument, SkipOption, TrustOption
from levelfield.errors import BadInput, UnreadableImage
from levelfield.files import write_text, write_whole
from levelfield.wording import first_few, plural

if TYPE_CHECKING:
    import numpy as np


def add_to(app: typer.Typer, panel: str) -> None:
    app.command("embed", epilog="Example: levelfield embed runs/demo/best photos --out e.npy", rich_help_panel=panel)(
        embed
    )
    app.command(
        "search", epilog="Example: levelfield search runs/demo/best --gallery photos query.jpg", rich_help_panel=panel
    )(search)


def embed(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(help="Folders (searched through), CSV files or images.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="A .npy file, with the paths beside it, or a .csv with a path and its numbers in "
            "each line. Left out: NAME.embeddings.npy after what is embedded.",
        ),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize/--raw", help="Unit length, or the head's raw rows.")] = True,
    skip_unreadable: SkipOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    trust_files: TrustOption = None,
) -> None:
    """Embed images with a run's model."""
    target = _target(out, images)
    listing = target.with_name(target.stem + ".paths.txt") if target.suffix == ".npy" else None
    _keep_existing([file for file in (target, listing) if file is not None], force)
    paths = list(dict.fromkeys(path for place in images for path in find_images(place)))

    import numpy as np

    from levelfield.embedder import load

    model = load(run)
    if skip_unreadable:
        paths = _readable(paths)
    try:
        with bar("embedding") as progress:
            rows = model.embed(paths, normalize=normalize, progress=progress)
    except UnreadableImage as error:
        raise BadInput(f"{error} To go on without such images: --skip-unreadable") from error
    if listing is None:
        write_text(target, "".join(_csv_lines(paths, rows)))
    else:
        write_whole(target, lambda file: np.save(file, rows))
        write_text(listing, "".join(f"{path}\n" for path in paths))
    beside = "" if listing is None else f"; their paths: {listing}"
    console.print(f"{len(rows):,} embeddings of {rows.shape[1]} numbers: {target}{beside}")


def _target(out: Path | None, images: list[Path]) -> Path:
    """Where the embeddings go: as named, or named after the one folder or file that is embedded."""
    if out is None:
        named = Path(os.path.realpath(images[0])).stem if len(images) == 1 else ""
        return Path(f"{named}.embeddings.npy" if named else "embeddings.npy")
    if not out.name:
        raise BadInput(f"--out {str(out)!r} names no file: write one, such as embeddings.npy.")
    if out.suffix in (".npy", ".csv"):
        return out
    if not out.suffix:
        return out.with_name(out.name + ".npy")
    raise BadInput(f"--out {out}: embeddings are written as .npy or .csv. Did you mean {out.with_suffix('.npy')}?")


def _keep_existing(files: list[Path], force: bool) -> None:
    there = [str(file) for file in files if file.exists()]
    if there and not force:
        raise BadInput(f"{first_few(there)} exists already. Name another file by --out, or replace it by --force.")


def _readable(paths: list[Path]) -> list[Path]:
    """Those that can be decoded; the others are named."""
    from levelfield.data.checks.readable import unreadable

    with bar("checking the images") as progress:
        failures = unreadable(paths, progress=progress)
    if len(failures) == len(paths):
        raise BadInput(f"None of {plural(len(paths), 'image', 'images')} can be read. The first: {failures[0]}")
    if failures:
        names = first_few([str(paths[position]) for position in failures])
        error_console.print(f"{plural(len(failures), 'image', 'images')} skipped, which cannot be read: {names}.")
    return [path for position, path in enumerate(paths) if position not in failures]


def _csv_lines(paths: list[Path], rows: np.ndarray) -> Iterator[str]:
    """A header, then a line for each image; nine digits give a float32 back as it was."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", *range(rows.shape[1])])
    for path, row in zip(paths, rows, strict=True):
        writer.writerow([path, *(f"{value:.9g}" for value in row)])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def search(
    run: RunArgument,
    queries: Annotated[list[Path], typer.Argument(help="Images to look for.")],
    gallery: Annotated[Path, typer.Option("--gallery", help="The folder (or CSV) to search in.")],
    k: Annotated[int, typer.Option("-k", "--neighbours", min=1, help="How many to print.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trust_files: TrustOption = None,
) -> None:
    """Print the images of a folder that are nearest to a query."""
    import numpy as np

    from levelfield.embedder import load

    model = load(run)
    paths = find_images(gallery)
    asked = [path for query in queries for path in find_images(query)]
    with bar("embedding") as progress:
        rows = model.embed([*paths, *asked], progress=progress)
    similarity = rows[len(paths) :] @ rows[: len(paths)].T
    found = {}
    for query, scores in zip(asked, similarity, strict=True):
        own = [i for i, path in enumerate(paths) if path.resolve() == query.resolve()]
        scores[own] = -np.inf  # an image is not its own neighbour
        order = np.argsort(-scores, kind="stable")[: min(k, len(paths) - len(own))]
        found[str(query)] = [{"path": str(paths[i]), "similarity": round(float(scores[i]), 4)} for i in order]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for name, neighbours in found.items():
        console.print(f"Nearest to {name}:", highlight=False, soft_wrap=True)
        for neighbour in neighbours:
            console.print(f"  {neighbour['similarity']:.3f}  {neighbour['path']}", highlight=False, soft_wrap=True)


def find_images(place: Path) -> list[Path]:
    """All images under a folder in a fixed order, those a CSV lists, or the one file that is named."""
    from levelfield.data import create, is_image
    from levelfield.data.checks.readable import check_names

    if place.is_file() and place.suffix.lower() == ".csv":
        return list(create(place).paths)
    if place.is_file():
        check_names([place])
        return [place]
    if not place.exists():
        raise BadInput(f"There is no file or folder {place}.")
    # a walk leaves out folders that may not be read, or that vanish meanwhile
    files = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
    found = sorted(path for path in files if is_image(path) and path.is_file())
    if not found:
        raise BadInput(f"There is no image under {place}.")
    check_names(found)
    return found
