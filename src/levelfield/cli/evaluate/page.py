"""`levelfield evaluate --page`: the page of evaluated embeddings, with their images."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from levelfield.cli.console import bar
from levelfield.cli.evaluate.arrays import MOST
from levelfield.cli.evaluate.subject import Subject
from levelfield.cli.evaluate.tables import Evaluated
from levelfield.errors import BadInput
from levelfield.files.reading import read_text
from levelfield.files.writing import expanded

_COLUMNS = ("path", "image", "file")


def check_options(page: Path | None, images: Path | None, run: Path | None, subject: Subject) -> None:
    """Refuse options that do not fit together, before anything is computed."""
    if page is None:
        if images is not None:
            raise BadInput("--images lists the images for a page: give the page's file, too, e.g. --page out.html.")
        return
    if page.suffix.lower() != ".html":
        raise BadInput(f"--page {page}: the file name must end with .html.")
    if (images is None) == (run is None):
        known = "a run knows its images: leave --images out" if run else "give --images FILE, one path per row"
        raise BadInput(f"--page shows images; {known}.")
    if "query_ids" in subject.arrays:
        raise BadInput("--page cannot be combined with --query-ids: to search all rows, leave the gallery out.")


def image_paths(images: Path, queries: int, gallery: int) -> list[Path]:
    """The paths that a file lists, one for each embedding and then one for each row of the gallery.

    A text file has one path per line; a CSV has a column `path`, `image` or `file`, or only one column. Relative paths
    are relative to the file, or to the current folder.
    """
    text = read_text(expanded(images), most=MOST).removeprefix("\ufeff")
    if images.suffix.lower() == ".csv":
        found = _column(images, list(csv.reader(io.StringIO(text, newline=""))))
    else:
        found = text.splitlines()
    if len(found) != queries + gallery:
        needed = f"{queries:,} embeddings" + (f" and {gallery:,} gallery rows" if gallery else "")
        raise BadInput(f"{images} lists {len(found):,} images for {needed}: one path per row is needed.")
    home = images.parent if (images.parent / found[0]).exists() else Path()
    return [home / path for path in found]


def write_page(
    path: Path, images: Path | None, subject: Subject, found: Sequence[Evaluated], rows: Sequence[np.ndarray]
) -> None:
    """Write the page. rows: the embeddings of each evaluation."""
    from levelfield.reports.page import write
    from levelfield.reports.page.arrays import Shown, images_of, page_of_arrays

    gallery = subject.arrays.get("gallery")
    others = 0 if gallery is None else len(gallery)
    if images is None:
        listed = [Path(one) for one in [*(subject.paths or []), *((subject.found or []) if others else [])]]
    else:
        listed = image_paths(images, len(subject.names), others)
    labels = subject.names.astype(str)
    if gallery is not None:
        labels = np.concatenate([labels, np.asarray(subject.arrays["gallery_labels"]).astype(str)])
    shown = []
    for one, queries in zip(found, rows, strict=True):
        every = queries if gallery is None else np.concatenate([queries, gallery])
        label = ", ".join(filter(None, [one.distance, f"dim {one.dim}", one.refined]))
        chosen = one.decided[0].value if one.decided is not None and one.distance == "cosine" else None
        shown.append(Shown(label, every[:, : one.dim], one.result, one.distance, chosen))
    with bar("making the page") as progress:
        pictured = images_of(listed, labels, len(subject.names) if others else None)
        page = page_of_arrays(path.stem, pictured, shown, progress=progress)
    write.write_page(page, path)


def _column(path: Path, lines: list[list[str]]) -> list[str]:
    heading = [field.strip().lower() for field in lines[0]] if lines else []
    named = [place for place, field in enumerate(heading) if field in _COLUMNS]
    if not named and len(heading) > 1:
        raise BadInput(f"{path} has the columns {', '.join(heading)}: one of them must be called path, image or file.")
    place = named[0] if named else 0
    return [line[place] if place < len(line) else "" for line in (lines[1:] if named else lines)]
