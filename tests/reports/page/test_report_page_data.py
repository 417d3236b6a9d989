"""The page's data as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from looked_at import array

from levelfield.reports.page.content import Cell, Page, TestSet
from levelfield.reports.page.write import plain, to_json


def page(**changes: object) -> Page:
    empty = TestSet("photos", 0, [], np.zeros(0, np.uint16), [])
    given = {
        "levelfield": "1",
        "study": "s",
        "about": "",
        "answer": ["Use margin."],
        "cautions": [],
        "best": 0,
        "metrics": [],
        "rows": [],
        "comparisons": [],
        "comparison_note": "",
        "tables": [],
        "curves": [],
        "missing": [],
        "tests": [empty],
    }
    return Page(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "i4", "f4"])
def test_an_array_comes_back_with_its_type_shape_and_numbers(kind: str) -> None:
    made = np.arange(6).reshape(2, 3).astype(kind)
    back = array(plain(made))
    assert back.dtype.str[1:] == kind
    np.testing.assert_array_equal(back, made)


def test_big_endian_and_strided_arrays_are_written_as_the_page_reads_them() -> None:
    made = np.arange(12, dtype=">u2").reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(array(plain(made)), [[0, 2], [4, 6], [8, 10]])


def test_numbers_that_are_not_finite_become_null() -> None:
    assert plain(Cell(float("inf"), float("nan"), 0.5, None)) == {"mean": None, "low": None, "high": 0.5, "sd": None}


def test_an_array_that_the_page_cannot_read_is_refused() -> None:
    with pytest.raises(TypeError, match="array of float64"):
        plain(np.zeros(2))
    with pytest.raises(TypeError, match="a set"):
        plain({1, 2}.union())


def test_the_json_has_the_keys_of_the_structure_and_only_ascii() -> None:
    text = to_json(page(study="crème 🦆 \u2028 \udcff"))
    assert text.isascii()
    content = json.loads(text)
    assert content["format"] == 1
    assert content["live"] is None
    assert content["study"] == "crème 🦆 \u2028 \udcff"
    assert content["tests"][0]["mistakes"] == {"labels": [], "duplicates": [], "leaks": []}
