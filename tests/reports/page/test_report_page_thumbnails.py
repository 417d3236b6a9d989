"""Thumbnail sheets, decoded again."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from looked_at import draw
from PIL import Image

from levelfield.reports.page import thumbnails
from levelfield.reports.page.content import Thumbnails
from levelfield.reports.page.thumbnails import COLUMNS, SIZE, thumbnails_of

LABELS = np.arange(10) % 3


def cell(made: Thumbnails, place: int) -> np.ndarray:
    """The pixels of the thumbnail at a place, as a browser would cut it out."""
    number, inside = divmod(place, made.per_sheet)
    content = base64.b64decode(made.sheets[number].removeprefix("data:image/webp;base64,"))
    sheet = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    top, left = inside // made.columns * made.size, inside % made.columns * made.size
    return sheet[top : top + made.size, left : left + made.size]


def test_every_image_is_at_its_place_on_its_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thumbnails, "PER_SHEET", 4)
    paths = draw(tmp_path, LABELS)
    made = thumbnails_of(paths, None).thumbnails
    assert len(made.sheets) == 3
    for number, path in enumerate(paths):
        wanted = np.asarray(Image.open(path).resize((SIZE, SIZE)).convert("RGB")).mean(axis=(0, 1))
        found = cell(made, number).mean(axis=(0, 1))
        np.testing.assert_allclose(found, wanted, atol=12)


def test_chosen_images_are_listed_in_order(tmp_path: Path) -> None:
    made = thumbnails_of(draw(tmp_path, LABELS), np.array([7, 2])).thumbnails
    assert made.of is not None
    assert made.of.tolist() == [2, 7]


def test_missing_damaged_and_wide_images(tmp_path: Path) -> None:
    paths = draw(tmp_path, LABELS)
    paths[1].unlink()
    paths[4].write_bytes(b"no image")
    Image.new("RGB", (400, 100), "red").save(paths[5])
    seen = thumbnails_of(paths, None)
    assert seen.lost == [1, 4]
    assert 1 not in seen.hashed
    wide = cell(seen.thumbnails, 5)
    assert wide[32, 32, 0] > 200
    assert wide[0, 0].min() > 240
    np.testing.assert_allclose(cell(seen.thumbnails, 1)[8:-8, 8:-8], 200, atol=10)  # the placeholder's grey


def test_no_images_at_all() -> None:
    seen = thumbnails_of([], None)
    assert seen.thumbnails.sheets == []
    assert seen.hashes.shape == (0, 64)
    assert COLUMNS * SIZE == 1024
