"""What the page of a study shows, as one typed structure. Images are numbered by their position in the test set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from levelfield.table import Table

FORMAT = 1
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Point: TypeAlias = tuple[float, float]
Pair: TypeAlias = tuple[int, int, float]  # two images and their similarity


def smallest(numbers: Array) -> Array:
    """Whole numbers from 0 in the smallest unsigned type that the page reads.

    >>> smallest(np.array([3, 70_000])).dtype, smallest(np.array([3])).dtype
    (dtype('uint32'), dtype('uint16'))
    """
    return numbers.astype(np.uint16 if not numbers.size or numbers.max() < 2**16 else np.uint32)


@dataclass(frozen=True)
class Metric:
    """A column of the leaderboard. higher: whether larger is better; False for metrics that only describe."""

    name: str
    higher: bool
    text: str


@dataclass(frozen=True)
class Cell:
    """A score: mean over seeds, its 95 % interval, and the standard deviation over seeds; None if unknown."""

    mean: float
    low: float | None
    high: float | None
    sd: float | None


@dataclass(frozen=True)
class Deviation:
    """A point in which a row departs from the conditions. key: its letter on the leaderboard."""

    key: str
    text: str


@dataclass(frozen=True)
class Row:
    """A row of the leaderboard. colour: -1 is grey. embedded: its place among the methods of its test set."""

    label: str
    colour: int
    method: str
    trained: bool
    seeds: int
    dim: int
    cells: dict[str, Cell]
    seconds: float | None
    images_seen: float | None
    peak_bytes: float | None
    passes: float | None
    group: str
    deviations: list[Deviation]
    test: int
    run: str
    embedded: int | None = None


@dataclass(frozen=True)
class Compared:
    """The test between two rows, given by their places. better: "first", "second", or None for a tie."""

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    p: float | None
    better: str | None
    text: str


@dataclass(frozen=True)
class Curve:
    """What one run recorded during training, as (step, value)."""

    row: int
    seed: int
    loss: list[Point]
    spread: list[Point]
    rho: list[Point]
    validation: list[Point]
    chosen_step: int | None


@dataclass(frozen=True)
class Missing:
    """A run that failed or did not finish."""

    row: str
    reason: str


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Sheets of small images as data URIs, row by row. of: the images that have one; None: every image."""

    size: int
    columns: int
    per_sheet: int
    sheets: list[str]
    of: Array | None = None


@dataclass(frozen=True, eq=False)
class ByClass:
    """Recall of each class (NaN: no query), and (class, class it is taken for, count), most frequent first."""

    recall: Array
    taken_for: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Intervals:
    """95 % intervals over classes at each threshold."""

    false_accept: list[Point]
    false_reject: list[Point]


@dataclass(frozen=True)
class Threshold:
    """Error rates of "same class" at each threshold of `grid`, and the pairs just above and below `value`."""

    value: float
    source: str
    grid: list[float]
    false_accept: list[float]
    false_reject: list[float]
    intervals: Intervals | None
    above: list[Pair]
    below: list[Pair]


@dataclass(frozen=True, eq=False)
class Embedded:
    """The test embeddings of one row: neighbours, ranks, position on the map, confusions, threshold.

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
    classes: ByClass
    threshold: Threshold | None
    distance: str = "cosine"


@dataclass(frozen=True)
class LabelError:
    """An image whose neighbours are of another class: `votes` of `of` methods agree on it."""

    image: int
    says: int
    votes: int
    of: int


@dataclass(frozen=True)
class Duplicate:
    """Two test images that are equal or nearly equal. distance: mean difference of colours, of 255."""

    first: int
    second: int
    distance: float
    text: str


@dataclass(frozen=True)
class Leak:
    """A test image that is in the training part, too."""

    image: int
    text: str


@dataclass(frozen=True)
class Mistakes:
    """Images to check: likely label errors, duplicates, leaks."""

    labels: list[LabelError] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    leaks: list[Leak] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Explained:
    """Why an image and its neighbour are similar: the contribution of each cell of either image to their cosine."""

    method: int
    image: int
    neighbour: int
    cosine: float
    exact: bool
    text: str
    query_map: Array
    neighbour_map: Array
    activation: Array
    neighbour_activation: Array


@dataclass(frozen=True)
class Why:
    """Explained queries. notes: methods that could not be explained, with the reason."""

    queries: list[int]
    maps: list[Explained]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test images of some rows, and what their embeddings say about them."""

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
    thumbnails: Thumbnails | None = None
    notes: list[str] = field(default_factory=list)
    methods: list[Embedded] = field(default_factory=list)
    mistakes: Mistakes = field(default_factory=Mistakes)
    why: Why | None = None


@dataclass(frozen=True)
class Live:
    """Set by the server of `levelfield view`. runs: rows whose model can embed a new image."""

    token: str
    runs: list[int]


@dataclass(frozen=True, eq=False)
class Page:
    """Everything that the page of a study shows. rows: best first; metrics[0] decides their order."""

    levelfield: str
    study: str
    about: str
    answer: list[str]
    cautions: list[str]
    best: int
    metrics: list[Metric]
    rows: list[Row]
    comparisons: list[Compared]
    comparison_note: str
    tables: list[Table]
    curves: list[Curve]
    missing: list[Missing]
    tests: list[TestSet]
    live: Live | None = None
    format: int = FORMAT
