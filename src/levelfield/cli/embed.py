"""`levelfield embed`: embed images with the model of a finished run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli import options
from levelfield.cli.console import bar, say
from levelfield.cli.options import option
from levelfield.errors import BadInput, UnreadableImage
from levelfield.files.writing import write_text, write_whole
from levelfield.progress import Progress
from levelfield.table import Table
from levelfield.wording import first_few


def embed(
    run: options.ModelArgument,
    images: Annotated[list[Path], typer.Argument(help="Folders (searched recursively), CSV files or images.")],
    out: Annotated[
        Path | None,
        option(
            "--out",
            "Output file: .npy (paths in a .txt file beside it), or .csv (one line per image). "
            "Default: NAME.embeddings.npy, after the embedded folder or file.",
        ),
    ] = None,
    normalize: Annotated[bool, option("--normalize/--raw", "Unit-length rows, or raw rows of the head.")] = True,
    skip_unreadable: options.SkipOption = False,
    workers: options.WorkersOption = None,
    force: options.ForceOption = False,
    device: options.DeviceOption = "auto",
    trust_files: options.TrustOption = None,
) -> None:
    """Embed images with the model of a run."""
    target = _target(out, images)
    listing = target.with_name(target.stem + ".paths.txt") if target.suffix == ".npy" else None
    there = [str(file) for file in (target, listing) if file is not None and file.exists()]
    if there and not force:
        raise BadInput(
            f"{first_few(there)} already exists. Choose another file with --out, or replace it with --force."
        )

    import numpy as np

    from levelfield.shipping import load
    from levelfield.shipping.searching import find_images, readable

    paths = find_images(images)
    if listing is not None and any({"\n", "\r"} & set(str(path)) for path in paths):
        raise BadInput(f"A name of an image has a line break, which {listing} cannot hold: use --out FILE.csv.")
    model = load(run, device=device)
    with embedding() as progress:
        if skip_unreadable:
            paths = readable(paths, progress=progress)
        rows = model.embed(paths, normalize=normalize, progress=progress)
    if listing is None:  # nine digits restore a float32 exactly
        lines = [[path, *(f"{value:.9g}" for value in row)] for path, row in zip(paths, rows, strict=True)]
        write_text(target, Table(["path", *map(str, range(rows.shape[1]))], lines).csv())
    else:
        write_whole(target, lambda file: np.save(file, rows))
        write_text(listing, "".join(f"{path}\n" for path in paths))
    beside = "" if listing is None else f"; paths: {listing}"
    say(f"{len(rows):,} embeddings of {rows.shape[1]} dimensions: {target}{beside}")


def _target(out: Path | None, images: list[Path]) -> Path:
    """The output file: `out`, or a name made from the only embedded folder or file."""
    if out is None:
        named = Path(os.path.realpath(images[0])).stem if len(images) == 1 else ""
        return Path(f"{named}.embeddings.npy" if named else "embeddings.npy")
    if not out.name:
        raise BadInput(f"--out {str(out)!r} is not a file name: give one, such as embeddings.npy.")
    if out.is_dir():
        raise BadInput(f"--out {out} is a folder: give a file, such as {out / 'embeddings.npy'}.")
    if out.suffix in (".npy", ".csv"):
        return out
    if not out.suffix:
        return out.with_name(out.name + ".npy")
    raise BadInput(f"--out {out}: the file name must end with .npy or .csv. Did you mean {out.with_suffix('.npy')}?")


@contextmanager
def embedding() -> Iterator[Progress]:
    """A bar while images are embedded; the error for one that cannot be read names --skip-unreadable."""
    try:
        with bar("embedding") as progress:
            yield progress
    except UnreadableImage as error:
        raise BadInput(f"{error} To skip such images: --skip-unreadable") from error
