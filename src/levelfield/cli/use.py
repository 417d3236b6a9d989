"""`levelfield embed` and `search`: a finished run is a usable model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from levelfield.cli.console import console, is_quiet
from levelfield.data import create, is_image
from levelfield.embedder import load
from levelfield.errors import BadInput
from levelfield.files import write_text, write_whole

Run = Annotated[Path, typer.Argument(help="A run folder.")]


def add_to(app: typer.Typer) -> None:
    app.command("embed", epilog="Example: levelfield embed runs/demo/margin/seed0-1a2b3c photos --out e.npy")(embed)
    app.command("search", epilog="Example: levelfield search runs/demo/margin/seed0-1a2b3c --gallery photos query.jpg")(
        search
    )


def embed(
    run: Run,
    images: Annotated[Path, typer.Argument(help="A folder (searched through), a CSV or one image.")],
    out: Annotated[Path, typer.Option("--out", help="The embeddings; the paths go beside it.")] = Path(
        "embeddings.npy"
    ),
    normalize: Annotated[bool, typer.Option("--normalize/--raw", help="Unit length, or the head's raw rows.")] = True,
) -> None:
    """Embed images with a run's model."""
    paths = find_images(images)
    rows = load(run).embed(paths, normalize=normalize, progress=not is_quiet())
    out = out if out.suffix == ".npy" else out.with_name(out.name + ".npy")
    write_whole(out, lambda file: np.save(file, rows))
    listing = out.with_name(out.stem + ".paths.txt")
    write_text(listing, "".join(f"{path}\n" for path in paths))
    console.print(
        f"{len(rows):,} embeddings of {rows.shape[1]} numbers: {out}; their paths: {listing}", highlight=False
    )


def search(
    run: Run,
    queries: Annotated[list[Path], typer.Argument(help="Images to look for.")],
    gallery: Annotated[Path, typer.Option("--gallery", help="The folder (or CSV) to search in.")],
    k: Annotated[int, typer.Option("-k", "--neighbours", min=1, help="How many to print.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the images of a folder that are nearest to a query."""
    model = load(run)
    paths = find_images(gallery)
    asked = [path for query in queries for path in find_images(query)]
    rows = model.embed([*paths, *asked], progress=not is_quiet())
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
    if place.is_file() and place.suffix.lower() == ".csv":
        return list(create(place).paths)
    if place.is_file():
        return [place]
    if not place.exists():
        raise BadInput(f"There is no file or folder {place}.")
    found = sorted(path for path in place.rglob("*") if is_image(path) and path.is_file())
    if not found:
        raise BadInput(f"There is no image under {place}.")
    return found
