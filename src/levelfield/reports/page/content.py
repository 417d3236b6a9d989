"""What the page of a study shows. Images are numbered by their position in the test set.

`Data` are plain values that the page's script reads by name; the function that makes them describes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from levelfield.table import Table

FORMAT = 1
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Data: TypeAlias = dict[str, Any]


def smallest(numbers: Array) -> Array:
    """Whole numbers from 0 in the smallest unsigned type that the page reads.

    >>> smallest(np.array([3, 70_000])).dtype, smallest(np.array([3])).dtype
    (dtype('uint32'), dtype('uint16'))
    """
    return numbers.astype(np.uint16 if not numbers.size or numbers.max() < 2**16 else np.uint32)


def score(mean: float, low: float | None, high: float | None, sd: float | None) -> Data:
    """A score: mean over seeds, its 95 % interval, and the standard deviation over seeds; None if unknown."""
    return {"mean": mean, "low": low, "high": high, "sd": sd}


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard. colour: -1 is grey. embedded: its index among the methods of its test set.

    cells: a `score` for each metric. deviations: `key`, a letter on the leaderboard, and `text`.
    """

    label: str
    colour: int
    method: str
    trained: bool
    seeds: int
    dim: int
    cells: dict[str, Data]
    seconds: float | None
    images_seen: float | None
    peak_bytes: float | None
    passes: float | None
    group: str
    deviations: list[Data]
    test: int
    run: str
    embedded: int | None = None


@dataclass(frozen=True, eq=False)
class Embedded:
    """The test embeddings of a row: neighbours, ranks, position on the map, confusions, threshold.

    right: 1 or 0; 2: not a query that counts; 3: not searched. first_right: rank of the first right image, 0: none.
    """

    row: int
    queries: Array | None
    k: int
    neighbours: Array
    similarity: Array
    first_right: Array
    right: Array
    map: Array | None
    found_by: Array
    classes: Data
    threshold: Data | None
    distance: str = "cosine"


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test images of some rows, and what their embeddings say about them. mistakes: images to check.

    thumbnails: sheets of small images as data URIs, row by row; `of`: the images that have one, None: all of them.
    """

    __test__ = False  # not a test case

    name: str
    count: int
    classes: list[str]
    class_of: Array
    files: list[str]
    groups: list[str] | None = None
    group_of: Array | None = None
    query: Array | None = None
    gallery: Array | None = None
    lost: list[int] = field(default_factory=list)
    thumbnails: Data | None = None
    notes: list[str] = field(default_factory=list)
    methods: list[Embedded] = field(default_factory=list)
    mistakes: Data = field(default_factory=lambda: {"labels": [], "duplicates": [], "leaks": []})
    why: Data | None = None


@dataclass(frozen=True, eq=False)
class Page:
    """Everything that the page of a study shows. rows: best first; metrics[0] decides their order.

    live: set by the server of `levelfield view`; its token, and the rows whose model can embed a new image.
    """

    levelfield: str
    study: str
    about: str
    answer: list[str]
    cautions: list[str]
    best: int
    metrics: list[Data]
    rows: list[Row]
    comparisons: list[Data]
    comparison_note: str
    tables: list[Table]
    curves: list[Data]
    missing: list[Data]
    tests: list[TestSet]
    live: Data | None = None
    format: int = FORMAT
