"""The same method looks the same in every figure of a study."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import matplotlib.figure
import pytest
from made_runs import Figures, planned, trained_board
from matplotlib.colors import to_hex

from levelfield.reports.figures import draw_figures
from levelfield.reports.figures._rows import COLOURS, GREY, styles

LABELS = ("lda", "margin", "R-margin", "triplet", "contrastive")
STUDY = [
    "lda",
    "margin",
    {"label": "R-margin", "margin": {"switch": 0.3}},
    {"triplet": {"miner": "random"}},
    "contrastive",
]


def colours(figure: matplotlib.figure.Figure) -> dict[str, set[str]]:
    """Of all lines by the method that they are labelled with, or that their panel or row is."""
    found: dict[str, set[str]] = defaultdict(set)
    for axis in figure.axes:
        rows = [text.get_text() for text in axis.get_yticklabels()]
        for line in axis.lines:
            label = str(line.get_label()).partition(" (")[0]
            if axis.get_title() in LABELS:
                found[axis.get_title()].add(to_hex(line.get_color()))
            elif label in LABELS:
                found[label].add(to_hex(line.get_color()))
            elif set(rows) <= set(LABELS) and line.get_marker() not in ("None", "", "|"):
                found[rows[round(line.get_ydata()[0])]].add(to_hex(line.get_color()))
        for bar in axis.containers:
            if bar.get_label() in LABELS:
                found[str(bar.get_label())].add(to_hex(bar.lines[0].get_color()))
    return found


@pytest.mark.parametrize("best", ["margin", "contrastive"])
def test_a_method_has_one_colour_in_all_figures_whoever_is_best(tmp_path: Path, shown: Figures, best: str) -> None:
    runs = planned(STUDY, seeds=1)
    order = runs if best == "contrastive" else runs[::-1]
    made = trained_board(order, tmp_path)
    names = ["leaderboard", "cost", "curves", "recall-rho", "spectra"]
    draw_figures(names, made, runs, tmp_path)
    swept = planned(STUDY, seeds=1, vary={"conditions.dim": [8, 16]})
    draw_figures(["sweep"], trained_board(swept, tmp_path / "swept"), swept, tmp_path / "swept")
    blue, red, green = COLOURS[:3]
    expected = {"lda": {GREY}, "margin": {blue}, "R-margin": {blue}, "triplet": {red}, "contrastive": {green}}
    for name, figure in zip([*names, "sweep"], shown, strict=True):
        drawn = colours(figure)
        assert set(drawn) >= set(LABELS) - {"lda"}, name
        assert drawn == {label: expected[label] for label in drawn}, name


def test_a_run_that_is_missing_moves_no_colour() -> None:
    runs = planned(STUDY, seeds=2)
    assert styles(runs) == styles(runs[: len(STUDY)])


def test_more_methods_than_colours_differ_in_marker_and_line() -> None:
    found = styles(planned([{"label": str(k), "margin": {"beta": 1 + k / 100}} for k in range(56)], seeds=1))
    assert len({(style.colour, style.marker) for style in found.values()}) == 56
    first = [(style.colour, str(style.line)) for style in list(found.values())[:28]]
    assert len(set(first)) == 28
    assert GREY not in {style.colour for style in found.values()}


def test_a_regulariser_makes_hollow_and_another_difference_gives_another_colour() -> None:
    found = styles(
        planned(
            [
                "margin",
                {"label": "R", "margin": {"switch": 0.3}},
                {"label": "R more", "margin": {"switch": 0.6}},
                {"label": "own rate", "name": "margin", "conditions": {"warmup": 3}},
            ],
            seeds=1,
        )
    )
    assert found["margin"].colour == found["R"].colour
    assert (found["margin"].hollow, found["R"].hollow) == (False, True)
    assert found["margin"].line != found["R"].line
    assert len({found[label].colour for label in ("margin", "R more", "own rate")}) == 3


def test_what_trains_nothing_is_grey_and_an_ensemble_is_not() -> None:
    found = styles(planned(["untrained", "lda", "margin", {"ensemble": {"of": ["margin", "lda"]}}], seeds=1))
    grey = [label for label, style in found.items() if style.colour == GREY]
    assert grey == ["untrained", "lda"]
    assert found["untrained"].marker != found["lda"].marker
