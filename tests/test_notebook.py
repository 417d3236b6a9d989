"""Notebook output: escaped text, and columns for pandas, which need not be installed here."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelfield import evaluate
from levelfield.table import Table, frame


class Frame(dict[str, list[Any]]):
    """Stands in for a DataFrame: its columns, and which of them is the index."""

    index = ""

    def set_index(self, name: str) -> Frame:
        self.index = name
        return self


@pytest.fixture(autouse=True)
def _pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))


def test_a_frame_has_the_columns_and_one_of_them_as_index() -> None:
    made = frame({"metric": ["nmi"], "value": [0.5]}, index="metric")
    assert made == {"metric": ["nmi"], "value": [0.5]}
    assert made.index == "metric"
    assert frame({"value": [1]}).index == ""


def test_captions_cells_and_notes_are_escaped() -> None:
    html = Table(["<b>"], [["<c>"]], "<a>", ["<d> & e"]).html()
    assert not [tag for tag in ("<a>", "<b>", "<c>", "<d>") if tag in html]
    assert "&lt;c&gt;" in html
    assert "<p>&lt;d&gt; &amp; e</p>" in html


def test_an_evaluation_gives_its_columns() -> None:
    result = evaluate(np.eye(4), ["a", "a", "b", "b"], metrics=["recall@1"], ci=0.9)
    assert list(result.to_pandas()) == [
        "metric",
        "value",
        "low over classes",
        "high over classes",
    ]
    queries = result.to_pandas("queries")
    assert {name: list(values) for name, values in queries.items()} == {
        "label": ["a", "a", "b", "b"],
        "counted": [True] * 4,
        "recall@1": list(result.per_query["recall@1"]),
    }
    assert list(result.to_pandas("classes")["class"]) == ["a", "b"]
