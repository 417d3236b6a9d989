"""What the page of a study shows: plain values that its script reads by name.

The function that makes them describes them: `collect` and `evaluation.page` the page, `standings.rows_of` a row,
`data_of_test_set` a test set and what each method does with it. Images are numbered by their position in the test set.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from levelfield import __version__

FORMAT = 1
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Data: TypeAlias = dict[str, Any]


def smallest(numbers: Array) -> Array:
    """Whole numbers from 0 in the smallest unsigned type that the page reads.

    >>> smallest(np.array([3, 70_000])).dtype, smallest(np.array([3])).dtype
    (dtype('uint32'), dtype('uint16'))
    """
    return numbers.astype(np.uint16 if not numbers.size or numbers.max() < 2**16 else np.uint32)


def page_of(study: str, tests: list[Data]) -> Data:
    """The parts that every page has, and empty ones that a page without runs of a study lacks."""
    known = {"format": FORMAT, "live": None, "levelfield": __version__, "study": study, "tests": tests}
    return {**known, "comparisons": [], "curves": [], "missing": []}


def score(mean: float, low: float | None, high: float | None, sd: float | None) -> Data:
    """A score: mean over seeds, its 95 % interval, and the standard deviation over seeds; None if unknown."""
    return {"mean": mean, "low": low, "high": high, "sd": sd}


def empty_test(name: str, notes: list[str]) -> Data:
    """A test set without images that can be shown, with all keys of `data_of_test_set`."""
    unknown = dict.fromkeys(("groups", "group_of", "query", "gallery", "thumbnails", "why"))
    lists: Data = {key: [] for key in ("classes", "files", "lost", "methods")}
    mistakes: Data = {"labels": [], "duplicates": [], "leaks": []}
    known = {"name": name, "count": 0, "class_of": smallest(np.zeros(0)), "notes": notes, "mistakes": mistakes}
    return {**known, **lists, **unknown}
