"""`levelfield embed`, `search` and `evaluate`: a finished run is a usable model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from levelfield.cli.console import console, is_quiet
from levelfield.data import create, is_image
from levelfield.embedder import load
from levelfield.errors import BadInput
from levelfield.evaluation import Evaluation, evaluate, split
from levelfield.files import write_text, write_whole

Run = Annotated[Path, typer.Argument(help="A run folder.")]


def add_to(app: typer.Typer) -> None:
    app.command("embed", epilog="Example: levelfield embed runs/demo/margin/seed0-1a2b3c photos --out e.npy")(embed)
    app.command("search", epilog="Example: levelfield search runs/demo/margin/seed0-1a2b3c --gallery photos query.jpg")(
        search
    )
    app.command(
        "evaluate", epilog="Example: levelfield evaluate --embeddings e.npy --labels y.npy --metrics recall@1,map@r"
    )(measure)


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


def measure(
    run: Annotated[Path | None, typer.Argument(help="A run folder; or give --embeddings and --labels.")] = None,
    embeddings: Annotated[Path | None, typer.Option("--embeddings", help="A .npy file, one row per image.")] = None,
    labels: Annotated[Path | None, typer.Option("--labels", help="A .npy file of whole numbers.")] = None,
    metrics: Annotated[
        str, typer.Option("--metrics", help="Names with commas between; see levelfield list metrics.")
    ] = ("recall@1,recall@2,recall@4,recall@8,r_precision,map@r,nmi"),
    distance: Annotated[str, typer.Option("--distance", help="cosine, euclidean or dot.")] = "cosine",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with the signatures.")] = False,
) -> None:
    """Measure a run's stored test embeddings, or anybody's arrays."""
    if (run is None) == (embeddings is None and labels is None):
        raise BadInput("Give a run folder, or --embeddings with --labels.")
    wanted = tuple(split(metrics))
    if not wanted:
        raise BadInput("--metrics names none; see `levelfield list metrics`.")
    rows, classes = _stored(run) if run is not None else _arrays(embeddings, labels)
    _print_result(evaluate(rows, classes, metrics=wanted, distance=distance), as_json)


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


def _stored(run: Path) -> tuple[np.ndarray, np.ndarray]:
    if not (run / "per_query.npz").exists():
        raise BadInput(
            f"{run} holds no measured test embeddings: it is no finished run, or it was trained on every class."
        )
    with np.load(run / "per_query.npz") as arrays:
        return np.load(run / "embeddings.npy"), arrays["labels"]


def _arrays(embeddings: Path | None, labels: Path | None) -> tuple[np.ndarray, np.ndarray]:
    if embeddings is None or labels is None:
        raise BadInput("--embeddings and --labels belong together: one whole number per row.")
    return _array(embeddings), _array(labels)


def _array(path: Path) -> np.ndarray:
    try:
        loaded: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path} is no readable .npy file: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise BadInput(f"{path} holds several arrays; a .npy file with one is needed.")
    return loaded


def _print_result(result: Evaluation, as_json: bool) -> None:
    if as_json:
        content = {name: {"value": result[name], "signature": str(result.signature(name))} for name in result}
        typer.echo(json.dumps({"metrics": content, "queries": result.n_queries, "lone": result.n_lone}, indent=2))
        return
    table = Table(pad_edge=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name in result:
        spread = f" ± {result.spread[name]:.4f}" if name in result.spread else ""
        table.add_row(name, f"{result[name]:.4f}{spread}")
    console.print(table)
    console.print(
        f"{result.n_queries:,} queries, {result.n_lone:,} of them without a relative. "
        f"Signature: {result.signature(next(iter(result)))}",
        highlight=False,
        soft_wrap=True,
    )
