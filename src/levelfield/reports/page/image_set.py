"""The test images of a run as the page needs them: where they are now, their classes, groups, roles and thumbnails."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from levelfield.data.checks.leaks import BITS, hash_bits
from levelfield.data.images import read_small
from levelfield.errors import LevelfieldError
from levelfield.evaluation.inputs import Inputs, check_inputs
from levelfield.evaluation.search.dense import Neighbours, neighbours
from levelfield.progress import SILENT, Progress
from levelfield.reports.page.content import Array, Data, smallest
from levelfield.studies.leaderboard.rows import Row
from levelfield.studies.runs.finished import inputs_of, stored_test
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.specification.locations import within_root
from levelfield.trust import trusting

_LONGEST = 80  # characters of a file's name
SIZE, COLUMNS, PER_SHEET = 64, 16, 256
TINY = 16  # side of the images whose colours are compared
MAX_THUMBNAILS = 8_000  # of one test set: about 6 MB
_QUALITY, _METHOD = 60, 2  # 0.55 KB for a drawing, 1 KB for a photograph; slower methods save a tenth
_READERS = 2
_FLAT = 1.0  # grey levels: an image with a smaller standard deviation has no pattern to compare


@dataclass(eq=False)
class Stored:
    """The test images of some rows, and by label each row's first run and its embeddings (images, dim)."""

    test_set: str
    items: Items
    folders: dict[str, Path]
    rows: dict[str, Array]


def stored_sets(rows: Sequence[Row]) -> tuple[list[Stored], list[str]]:
    """Leaderboard rows by the test images of their first run, and notes on rows without test embeddings."""
    sets: list[Stored] = []
    notes: list[str] = []
    for row in rows:
        folder = Path(row.first_run)
        try:
            embeddings, items = stored_test(folder)
        except LevelfieldError as error:
            notes.append(f"{row.label} is not shown here: {error}")
            continue
        for stored in sets:
            same = stored.items.paths == items.paths and np.array_equal(stored.items.classes, items.classes)
            if same and row.test_set == stored.test_set and np.array_equal(stored.items.queries, items.queries):
                break
        else:
            stored = Stored(row.test_set, items, {}, {})
            sets.append(stored)
        stored.folders[row.label], stored.rows[row.label] = folder, embeddings
    return sets, notes


@dataclass(frozen=True, eq=False)
class ImageSet:
    """paths: (images,); codes: the class of each image, by its place in `classes`; asked: whether it is a query."""

    paths: list[Path]
    classes: list[str]
    codes: Array
    asked: Array | None = None
    groups: list[str] | None = None
    group_of: Array | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def queries(self) -> Array:
        """The queries; without roles all images."""
        return np.arange(len(self)) if self.asked is None else np.flatnonzero(self.asked)

    @property
    def gallery(self) -> Array:
        """The images that are searched."""
        return np.arange(len(self)) if self.asked is None else np.flatnonzero(~self.asked)

    def inputs(self, rows: Array, queries: Array) -> Inputs:
        """Inputs of a search for these queries in the gallery, by embeddings (images, dim) of all images."""
        gallery = self.gallery
        if len(gallery) == len(rows) and np.array_equal(queries, gallery):
            return check_inputs(rows, self.codes)
        positions = np.full(len(rows), -1)
        positions[gallery] = np.arange(len(gallery))
        return check_inputs(
            rows[queries],
            self.codes[queries],
            gallery=rows if len(gallery) == len(rows) else rows[gallery],
            gallery_labels=self.codes[gallery],
            query_ids=positions[queries],
        )

    def nearest(self, inputs: Inputs, k: int, *, distance: str) -> Neighbours:
        """The k nearest images of each query of `inputs`, by their number; fewer if the gallery is smaller."""
        most = len(inputs.gallery) - bool((inputs.query_ids >= 0).any())
        near = neighbours(inputs, min(k, most), distance=distance)
        return replace(near, positions=self.gallery[near.positions])

    @property
    def names(self) -> list[str]:
        """Names of the files, below the folder that holds all of them."""
        home = os.path.commonpath([os.path.abspath(path.parent) for path in self.paths]) if self.paths else ""
        names = [os.path.relpath(path, home) for path in self.paths]
        return [name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in names]


@trusting()
def image_set(stored: Stored) -> ImageSet:
    """The test images at their current place, with their groups where the data has them.

    If the study's data is gone or has changed, the paths are those of the run.
    """
    items, folder = stored.items, next(iter(stored.folders.values()))
    classes, codes = np.unique(items.classes, return_inverse=True)
    names = [str(name) for name in classes]
    images = ImageSet(
        [within_root(Path(path)) for path in items.paths], names, codes, None if items.roles is None else items.queries
    )
    try:
        inputs = inputs_of(folder)
        catalog, test = inputs.catalog, inputs.fold.test
    except LevelfieldError:  # moved, deleted or not trusted: missing files are counted
        return images
    paths = [catalog.paths[i] for i in test]
    same = [path.name for path in paths] == [path.name for path in images.paths]
    if not same or [catalog.class_names[catalog.labels[i]] for i in test] != [names[code] for code in codes]:
        return images
    if catalog.groups is None:
        return replace(images, paths=paths)
    _, first, group_of = np.unique(catalog.groups[catalog.labels[test]], return_index=True, return_inverse=True)
    return replace(images, paths=paths, groups=[f"group of {names[codes[k]]}" for k in first], group_of=group_of)


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
