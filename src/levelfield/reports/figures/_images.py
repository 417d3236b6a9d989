"""Shared by figures with images: which rows they show, the test images, and what each row finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from levelfield import methods
from levelfield.data import read_image
from levelfield.errors import BadInput, LevelfieldError
from levelfield.reports.figures._rows import Drawn

if TYPE_CHECKING:
    from levelfield.reports.page.image_set import ImageSet

MOST_ROWS = 4
BEST = 3  # rows from the top of the leaderboard; the best one that trains nothing follows
PRINT = 200  # pixels per inch
GREY, DARK = (214, 214, 214), (150, 150, 150)


@dataclass(frozen=True, eq=False)
class Pictured:
    """Rows of a leaderboard with the embeddings (images, dim) of the same test images, best first."""

    images: ImageSet
    embeddings: dict[str, np.ndarray]
    distance: str

    def nearest(self, label: str, queries: np.ndarray, k: int) -> np.ndarray:
        """The k nearest images (queries, k) of each query, by their number; fewer if the gallery is smaller."""
        inputs = self.images.inputs(self.embeddings[label], queries)
        return self.images.nearest(inputs, k, distance=self.distance).positions

    def answerable(self) -> np.ndarray:
        """The queries whose class has another image to be found."""
        codes, gallery, queries = self.images.codes, self.images.gallery, self.images.queries
        there = np.bincount(codes[gallery], minlength=len(self.images.classes))
        itself = np.isin(queries, gallery, assume_unique=True)
        return np.asarray(queries[there[codes[queries]] > itself])


def pictured(rows: Sequence[Drawn], metric: str, figure: str) -> Pictured:
    """The first three rows and the best one that trains nothing, of those with the first row's test images."""
    from levelfield.reports.page.image_set import image_set, stored_sets  # other figures load no network

    finished = [row for row in rows if row.results]
    sets, reasons = stored_sets([row.row for row in finished])
    if not sets:  # trained on every class, or damaged
        raise BadInput(f"The figure '{figure}' needs a finished run with test embeddings. {' '.join(reasons[:1])}")
    images, embeddings = image_set(sets[0]), sets[0].rows
    if len(images.gallery) < 2 or not len(images.queries):
        raise BadInput(f"The figure '{figure}' needs at least two test images, a query and another one.")
    same = [row for row in finished if row.row.label in embeddings]
    distance = same[0].results[0].signatures[metric]["definition"]["distance"]
    idle = next((row for row in same[BEST:] if not methods.trains(row.method)), None)
    if idle is not None and all(methods.trains(row.method) for row in same[:BEST]):
        same[BEST:] = [idle]
    chosen = {row.row.label: embeddings[row.row.label] for row in same[:MOST_ROWS]}
    return Pictured(images, chosen, distance if isinstance(distance, str) else "cosine")


def square(path: Path, side: int) -> np.ndarray:
    """The image (side, side, 3) on white; a grey square with a cross if it is missing or unreadable."""
    try:
        image = read_image(path)
    except LevelfieldError:
        sheet, near, far = Image.new("RGB", (side, side), GREY), side // 4, side - side // 4
        for line in ((near, near, far, far), (near, far, far, near)):
            ImageDraw.Draw(sheet).line(line, fill=DARK, width=max(1, side // 24))
        return np.asarray(sheet)
    width, height = (max(1, round(length * side / max(image.size))) for length in image.size)
    sheet = Image.new("RGB", (side, side), "white")
    small = image.resize((width, height), Image.Resampling.LANCZOS)
    sheet.paste(small, ((side - width) // 2, (side - height) // 2))
    return np.asarray(sheet)
