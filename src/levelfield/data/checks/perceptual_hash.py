"""Perceptual hash of an image: scaled or recompressed copies differ in few bits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from levelfield.data.files.images import grey_thumbnail
from levelfield.progress import SILENT, Progress

BITS = 64
_SIDE, _KEPT = 32, 8  # side of the reduced image in pixels; low frequencies kept per direction
_FLAT = 1.0  # grey levels: an image with a smaller standard deviation has no pattern
_READERS = 2
_CHUNK = 1024
_ROWS, _COLUMNS = 1024, 8192  # one block of distances: 32 MB


def perceptual_hashes(paths: Sequence[Path], *, progress: Progress = SILENT) -> tuple[np.ndarray, np.ndarray]:
    """(images, 64) bool, the hash of each image, and (images,) bool, whether the image has any pattern to compare.

    The hash by cosine transform (Zauner 2010): which of the 64 lowest frequencies are above their median.
    """
    bits = np.empty((len(paths), BITS), dtype=bool)
    patterned = np.empty(len(paths), dtype=bool)
    stage = progress.stage("hashing images", len(paths))
    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(paths), _CHUNK):
            part = slice(start, start + _CHUNK)
            small = np.stack(list(readers.map(lambda path: grey_thumbnail(path, _SIDE), paths[part])))
            bits[part] = hash_bits(small)
            patterned[part] = small.std(axis=(1, 2)) >= _FLAT
            stage.advance(len(small))
    return bits, patterned


def hash_bits(grey: np.ndarray) -> np.ndarray:
    """(images, 64) bool of (images, side, side) grey images.

    >>> grey = np.random.default_rng(0).uniform(0, 255, (1, 32, 32))
    >>> int((hash_bits(grey) != hash_bits(0.5 * grey + 20)).sum())  # darker and flatter: the same picture
    0
    """
    from scipy.fft import dctn

    low = dctn(grey.astype(np.float32), axes=(1, 2), norm="ortho")[:, :_KEPT, :_KEPT].reshape(len(grey), -1)
    middle = np.median(low[:, 1:], axis=1, keepdims=True)  # the first is the mean brightness
    return np.asarray(low > middle)


def nearest_within(rows: np.ndarray, columns: np.ndarray, radius: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, column, distance) of each row whose nearest column differs in at most `radius` bits; ties go to the first
    column.

    Computed in blocks of products of -1 and 1: memory is 32 MB for any number of images.

    >>> a = np.zeros((2, 64), dtype=bool); b = a.copy(); b[1, :3] = True; a[1] = True
    >>> [found.tolist() for found in nearest_within(a, b, 4)]
    [[0], [0], [0]]
    """
    signs = (2.0 * columns - 1.0).astype(np.float32)
    best = np.full(len(rows), BITS + 1)
    place = np.zeros(len(rows), dtype=np.int64)
    for top in range(0, len(rows), _ROWS):
        block = (2.0 * rows[top : top + _ROWS] - 1.0).astype(np.float32)
        inside = slice(top, top + len(block))
        for left in range(0, len(columns), _COLUMNS):
            products = block @ signs[left : left + _COLUMNS].T
            found = products.argmax(axis=1)
            distance = ((BITS - products[np.arange(len(block)), found]) / 2).round().astype(np.int64)
            closer = distance < best[inside]
            best[inside] = np.where(closer, distance, best[inside])
            place[inside] = np.where(closer, left + found, place[inside])
    kept = np.flatnonzero(best <= radius)
    return kept, place[kept], best[kept]
