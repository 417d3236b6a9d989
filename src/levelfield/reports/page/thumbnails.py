"""Thumbnails of the test images as WebP sheets, and a perceptual hash of each; every image is decoded once."""

from __future__ import annotations

import base64
import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from levelfield.data.checks.leaks import BITS, hash_bits
from levelfield.data.images import read_small
from levelfield.errors import LevelfieldError
from levelfield.progress import SILENT, Progress
from levelfield.reports.page.content import Array, Data, smallest

SIZE, COLUMNS, PER_SHEET = 64, 16, 256
TINY = 16  # side of the images whose colours are compared
MOST = 8_000  # thumbnails of one test set: about 6 MB
_QUALITY, _METHOD = 60, 2  # 0.55 KB for a drawing, 1 KB for a photograph; slower methods save a tenth
_READERS = 2
_FLAT = 1.0  # grey levels: an image with a smaller standard deviation has no pattern to compare


@dataclass(frozen=True, eq=False)
class Seen:
    """The sheets; `lost`: images that could not be read.

    hashed: images with a pattern to compare; hashes: (hashed, 64) bool; tiny: (hashed, 16, 16, 3) uint8, their colours.
    """

    thumbnails: Data
    lost: list[int]
    hashed: Array
    hashes: Array
    tiny: Array


def thumbnails_of(paths: list[Path], chosen: Array | None, *, progress: Progress = SILENT) -> Seen:
    """Thumbnails of the chosen images (None: of all), each fitted into a white square.

    Memory: one sheet of decoded thumbnails at a time, and the compressed sheets.
    """
    numbers = np.arange(len(paths)) if chosen is None else np.sort(chosen)
    sheets, lost, read, greys, tiny = [], [], [], [], []
    stage = progress.stage("thumbnails", len(numbers))
    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(numbers), PER_SHEET):
            part = numbers[start : start + PER_SHEET].tolist()
            small = list(readers.map(lambda number: _small(paths[number]), part))
            lost += [number for number, image in zip(part, small, strict=True) if image is None]
            known = [(number, image) for number, image in zip(part, small, strict=True) if image is not None]
            read += [number for number, _ in known]
            greys += [np.asarray(image.convert("L").resize((32, 32), Image.Resampling.BOX)) for _, image in known]
            tiny += [np.asarray(image.resize((TINY, TINY), Image.Resampling.BOX)) for _, image in known]
            sheets.append(readers.submit(_sheet, small))
            stage.advance(len(part))
        texts = [sheet.result() for sheet in sheets]
    grey = np.stack(greys) if greys else np.zeros((0, 32, 32), np.uint8)
    colours = np.stack(tiny) if tiny else np.zeros((0, TINY, TINY, 3), np.uint8)
    patterned = grey.std(axis=(1, 2)) >= _FLAT
    bits = hash_bits(grey[patterned]) if patterned.any() else np.zeros((0, BITS), bool)
    of = None if chosen is None else smallest(numbers)
    thumbnails = {"size": SIZE, "columns": COLUMNS, "per_sheet": PER_SHEET, "sheets": texts, "of": of}
    return Seen(thumbnails, lost, np.array(read, np.int64)[patterned], bits, colours[patterned])


def _small(path: Path) -> Image.Image | None:
    """The image in a white square of SIZE pixels; None if it cannot be read."""
    try:
        image = read_small(path, SIZE)
    except LevelfieldError:  # moved, deleted or damaged since: counted as lost, and named on the page
        return None
    square = Image.new("RGB", (SIZE, SIZE), "white")
    square.paste(image, ((SIZE - image.width) // 2, (SIZE - image.height) // 2))
    return square


def _sheet(images: list[Image.Image | None]) -> str:
    """A sheet as a data URI; the place of a missing image stays grey."""
    lines = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * SIZE, lines * SIZE), (200, 200, 200))
    for number, image in enumerate(images):
        if image is not None:
            sheet.paste(image, (number % COLUMNS * SIZE, number // COLUMNS * SIZE))
    content = io.BytesIO()
    sheet.save(content, "WEBP", quality=_QUALITY, method=_METHOD)
    return "data:image/webp;base64," + base64.b64encode(content.getvalue()).decode("ascii")
