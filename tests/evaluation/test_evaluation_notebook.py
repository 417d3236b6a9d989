"""An evaluation in a notebook: one line, an HTML table, DataFrames."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from levelfield import evaluate
from levelfield.errors import MissingExtra, UnknownName
from levelfield.evaluation.result import Evaluation

LABELS = ["cat", "cat", "dog", "dog", "<b>", "<b>", "cat", "dog", "one", *"uuvvwwxx"]


@pytest.fixture
def result() -> Evaluation:
    rows = np.random.default_rng(0).normal(size=(len(LABELS), 4))
    return evaluate(rows, LABELS, metrics=["recall@1", "map@r", "nmi"], ci=0.9)


def test_the_line_has_the_figures_and_says_of_what(result: Evaluation) -> None:
    figures = ", ".join(f"{name} {value:.4f}" for name, value in result.items())
    assert figures.startswith("recall@1 ")
    about = "17 queries of 8 classes, 1 of them without another image of their class"
    assert repr(result) == f"Evaluation({figures}; {about})"


def test_the_table_has_a_line_for_each_metric(result: Evaluation) -> None:
    html = result._repr_html_().replace(' style="text-align: right"', "")
    assert html.count("<tr>") == 4
    assert ">90% interval over classes</th>" in html
    low, high = result.intervals["map@r"].low, result.intervals["map@r"].high
    assert f"<td>map@r</td><td>{result['map@r']:.4f}</td><td>{low:.4f}-{high:.4f}</td>" in html
    assert "<p>17 queries of 8 classes" in html
    assert "interval" not in evaluate(np.eye(4), [0, 0, 1, 1], metrics=["recall@1"])._repr_html_()


def test_pandas_gets_metrics_queries_and_classes(result: Evaluation) -> None:
    pytest.importorskip("pandas")
    metrics = result.to_pandas()
    assert metrics["value"].to_dict() == dict(result)
    assert metrics.loc["map@r", "low over classes"] == result.intervals["map@r"].low
    assert np.isnan(metrics.loc["nmi", "low over classes"])
    queries = result.to_pandas("queries")
    assert list(queries.columns) == ["label", "counted", "recall@1", "map@r"]
    assert queries["label"].tolist() == LABELS
    assert queries[queries["counted"]]["map@r"].mean() == pytest.approx(result["map@r"])
    classes = result.to_pandas("classes")
    assert classes.loc["dog", "queries"] == 3
    assert classes["map@r"].tolist() == result.per_class("map@r").means.tolist()


def test_an_unknown_table_names_the_nearest(result: Evaluation) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'queries'"):
        result.to_pandas("querys")


def test_without_pandas_the_message_says_what_to_install(result: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "levelfield\[notebook\]"'):
        result.to_pandas()
