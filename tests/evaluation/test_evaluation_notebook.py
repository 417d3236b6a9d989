"""An evaluation in a notebook: one line, an HTML table, DataFrames."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from levelfield import evaluate
from levelfield.errors import MissingExtra, UnknownName
from levelfield.evaluation.result import Evaluation

LABELS = ["cat", "cat", "dog", "dog", "<b>", "<b>", "cat", "dog", "one", *"uuvvwwxx"]


@pytest.fixture(scope="module")
def result() -> Evaluation:
    rows = np.random.default_rng(0).normal(size=(len(LABELS), 4))
    return evaluate(rows, LABELS, metrics=["recall@1", "map@r", "nmi"], ci=0.9)


def test_the_line_and_the_table_have_the_figures_and_say_of_what(result: Evaluation) -> None:
    figures = ", ".join(f"{name} {value:.4f}" for name, value in result.items())
    about = "17 queries of 8 classes, 1 of them without another image of their class"
    assert repr(result) == f"Evaluation({figures}; {about})"
    html = result._repr_html_().replace(' style="text-align: right"', "")
    assert html.count("<tr>") == 4
    assert ">90% interval over classes</th>" in html
    low, high = result.intervals["map@r"].low, result.intervals["map@r"].high
    assert f"<td>map@r</td><td>{result['map@r']:.4f}</td><td>{low:.4f}-{high:.4f}</td>" in html
    assert "<p>17 queries of 8 classes" in html
    assert "interval" not in evaluate(np.eye(4), [0, 0, 1, 1], metrics=["recall@1"])._repr_html_()


def test_pandas_gets_metrics_queries_and_classes(result: Evaluation) -> None:
    pytest.importorskip("pandas")
    metrics, queries, classes = result.to_pandas(), result.to_pandas("queries"), result.to_pandas("classes")
    assert (metrics.index.name, queries.index.name, classes.index.name) == ("metric", None, "class")
    assert list(metrics) == ["value", "low over classes", "high over classes"]
    assert dict(metrics["value"]) == dict(result)
    lows = [result.intervals[name].low for name in ("recall@1", "map@r")]
    np.testing.assert_array_equal(metrics["low over classes"], [*lows, np.nan])
    assert list(queries) == ["label", "counted", "recall@1", "map@r"]
    assert list(queries["label"]) == LABELS
    assert queries["map@r"][queries["counted"]].mean() == pytest.approx(result["map@r"])
    assert classes.loc["dog", "queries"] == 3
    assert list(classes["map@r"]) == result.per_class("map@r").means.tolist()


def test_an_unknown_table_names_the_nearest_and_without_pandas_the_message_says_what_to_install(
    result: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'queries'"):
        result.to_pandas("querys")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "levelfield\[notebook\]"'):
        result.to_pandas()
