"""How figures look: axes on which small differences look small, and one style for a method in every figure."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
from made_runs import Figures, class_means, draw_study, gathered, planned, trained_board, write_run
from matplotlib.colors import to_hex

from levelfield.reports.figures import draw_figures
from levelfield.reports.figures._axes import LEAST, limits, ordered, spacing
from levelfield.reports.figures._rows import COLOURS, GREY, styles


@pytest.mark.parametrize(
    "values", [[682, 694], [0.6, 0.606], [0.985, 0.99], [-5.0, -5.01], [3.0], [0.0], [1e-9, 1.1e-9], [0.02, 0.9]]
)
def test_values_lie_inside_and_an_axis_is_never_narrower_than_a_fifth_of_them(values: list[float]) -> None:
    low, high = limits(values)
    assert low <= min(values) <= max(values) <= high
    assert high - low >= LEAST * max(map(abs, values)) * 0.999
    assert high > low


def test_amounts_begin_at_zero() -> None:
    assert limits([682, 694], zero=True) == (0, pytest.approx(763.4))
    assert limits([0, 0], zero=True) == (0, 1)


def test_shares_end_near_one_and_zero() -> None:
    assert limits([0.97, 0.99])[1] == pytest.approx(1.02)
    assert limits([0.0, 0.99]) == (-0.02, pytest.approx(1.02))


def test_what_is_not_known_or_not_finite_moves_no_limit() -> None:
    assert limits([0.2, 0.6, None, math.nan, math.inf]) == limits([0.2, 0.6])
    assert limits([None]) == (0, 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([64, 128, 512], "log"),
        ([1, 2, 4, 8, 16], "log"),
        ([1e-4, 1e-2], "log"),
        ([0.1, 0.2, 0.5, 1.0], "log"),
        ([0, 0.1, 0.2], "linear"),
        ([100, 200, 300], "linear"),
        ([5], "linear"),
        ([-1, 1, 3], "linear"),
        ([0, 0.001, 0.1, 1.0], "even"),
        (["a", 3], "even"),
        ([True, False], "even"),
        ([None, 2], "even"),
    ],
)
def test_the_spacing_fits_the_values(values: list[Any], expected: str) -> None:
    assert spacing(ordered(values)) == expected


def test_nearly_equal_memory_looks_nearly_equal(tmp_path: Path, shown: Figures) -> None:
    runs = planned(["margin", "triplet"], seeds=1)
    for run, megabytes in zip(runs, (682, 694), strict=True):
        write_run(run, tmp_path, class_means(0.6), peak_bytes=megabytes * 10**6, images=1, rows_through_trunk=1)
    draw_figures(["cost"], gathered(runs, tmp_path, ("recall@1",)), runs, tmp_path)
    memory = shown[0].axes[1]
    assert memory.get_xlabel() == "peak memory, MB"
    low, high = memory.get_xlim()
    assert low == 0
    assert (694 - 682) / (high - low) < 0.02


@pytest.mark.parametrize(
    ("values", "scale", "texts"),
    [
        ([512, 16, 64], "log", ["16", "64", "512"]),
        ([8, 12, 10], "linear", ["8", "10", "12"]),
        ([1, 2, 1024, 1025], "linear", ["1", "2", "1,024", "1,025"]),
    ],
)
def test_a_sweep_has_a_tick_at_each_value_and_nowhere_else(
    tmp_path: Path, shown: Figures, values: list[int], scale: str, texts: list[str]
) -> None:
    draw_study("sweep", tmp_path, ["margin"], seeds=1, vary={"conditions.dim": values})
    for axis in shown[0].axes:
        assert axis.get_xscale() == scale
        assert [text.get_text() for text in axis.get_xticklabels()] == texts
        assert not len(axis.get_xticks(minor=True))
        places = [float(value) for value in sorted(values)] if len(values) == 3 else [0, 1, 2, 3]
        assert list(axis.get_xticks()) == places
        assert list(axis.lines[0].get_xdata()) == places


def test_keys_of_different_methods_have_panels_of_their_own(tmp_path: Path, shown: Figures) -> None:
    vary = {"methods.margin.beta": [0.6, 0.8], "methods.triplet.margin": [0.01, 0.1, 0.2]}
    draw_study("sweep", tmp_path, ["margin", "triplet", "lda"], seeds=1, vary=vary)
    panels = {axis.get_xlabel(): axis for axis in shown[0].axes if axis.get_ylabel() == "recall@1"}
    named = {
        key: {line.get_label() for line in axis.lines if not line.get_label().startswith("_")}
        for key, axis in panels.items()
    }
    assert named == {"beta": {"margin", "lda"}, "margin": {"triplet", "lda"}}


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
