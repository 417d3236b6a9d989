"""How figures look: axes, one style for a method in every figure, and where costs, ranks and maps are drawn."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from made_runs import LEVELS, SECONDS, Figures, class_means, draw_study, planned, trained_board, write_run
from matplotlib.colors import to_hex

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.friedman import rank
from levelfield.reports.dataset_ranks import draw_critical_difference
from levelfield.reports.figures import draw_figures
from levelfield.reports.figures._drawing import MIN_AXIS_SHARE, limits, ordered, spacing
from levelfield.reports.figures._rows import COLOURS, GREY, styles
from levelfield.reports.figures.activation_maps import overlaid, top_maps
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.runs.spec import PlannedRun


@pytest.mark.parametrize(
    "values", [[682, 694], [0.6, 0.606], [0.985, 0.99], [-5.0, -5.01], [3.0], [0.0], [1e-9, 1.1e-9], [0.02, 0.9]]
)
def test_values_lie_inside_and_an_axis_is_never_narrower_than_a_fifth_of_them(values: list[float]) -> None:
    low, high = limits(values)
    assert low <= min(values) <= max(values) <= high
    assert high - low >= MIN_AXIS_SHARE * max(map(abs, values)) * 0.999
    assert high > low


def test_what_is_not_known_or_not_finite_moves_no_limit() -> None:
    assert limits([0.2, 0.6, None, math.nan, math.inf]) == limits([0.2, 0.6])
    assert limits([None]) == (0, 1)
    assert limits([0, 0], zero=True) == (0, 1)
    assert limits([0.0, 0.99]) == (-0.02, pytest.approx(1.02))  # shares


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 4, 8, 16], "log"),
        ([1e-4, 1e-2], "log"),
        ([0.1, 0.2, 0.5, 1.0], "log"),
        ([0, 0.1, 0.2], "linear"),
        ([100, 200, 300], "linear"),
        ([5], "linear"),
        ([-1, 1, 3], "linear"),
        (["a", 3], "even"),
        ([True, False], "even"),
        ([None, 2], "even"),
    ],
)
def test_the_spacing_fits_the_values(values: list[Any], expected: str) -> None:
    assert spacing(ordered(values)) == expected


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


def test_more_methods_than_colours_differ_in_marker_and_line() -> None:
    runs = planned([{"label": str(k), "margin": {"beta": 1 + k / 100}} for k in range(56)], seeds=2)
    found = styles(runs)
    assert styles(runs[:56]) == found, "a run that is missing moves no colour"
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


def study_of_costs(folder: Path, *, scale: float = 1.0, **content: object) -> tuple[Leaderboard, list[PlannedRun]]:
    runs = planned(list(LEVELS), seeds=1, **content)
    for run in runs:
        seconds = SECONDS.get(run.label, 0.0) * (scale if run.label == "margin" else 1)
        cost = {"peak_bytes": int(seconds * 1e8), "images": 100, "rows_through_trunk": 100} if seconds else {}
        write_run(run, folder, class_means(LEVELS[run.label]), steps=10 if seconds else 0, seconds=seconds, **cost)
    return gather("study_of_costs", runs, folder, ("recall@1",)), runs


def test_every_trained_row_is_a_point_and_the_front_a_staircase(tmp_path: Path, shown: Figures) -> None:
    board, runs = study_of_costs(tmp_path)
    draw_figures(["cost"], board, runs, tmp_path)
    seconds, memory = shown[0].axes  # rows through the trunk are the same for all
    assert (seconds.get_xlabel(), memory.get_xlabel()) == ("training, seconds", "peak memory, MB")
    assert {bar.get_label(): tuple(bar.lines[0].get_xdata()) for bar in memory.containers} == {
        "margin": (900,),
        "triplet": (400,),
        "contrastive": (200,),
    }
    assert all(bar.has_yerr for bar in seconds.containers)
    lines = {line.get_label(): line for line in seconds.lines}
    right = seconds.get_xlim()[1]
    np.testing.assert_allclose(lines["front"].get_xdata(), [4, 4, 9, right])
    np.testing.assert_allclose(lines["front"].get_ydata(), [0.5, 0.58, 0.6, 0.6])
    np.testing.assert_allclose(lines["lda (trains nothing)"].get_ydata(), 0.5)
    assert seconds.get_xscale() == "linear"
    board, runs = study_of_costs(tmp_path / "far", scale=40.0)
    draw_figures(["cost"], board, runs, tmp_path / "far")
    assert shown[1].axes[0].get_xscale() == "log"


def test_each_test_set_has_panels_and_a_front_of_its_own(tmp_path: Path, shown: Figures) -> None:
    board, runs = study_of_costs(tmp_path, vary={"data": ["emoji", "photos"]})
    draw_figures(["cost"], board, runs, tmp_path)
    assert [axis.get_title(loc="left") for axis in shown[0].axes[::2]] == list(board.signatures)
    named = {text.get_text() for text in shown[0].legends[0].get_texts()}
    assert named == {"margin", "triplet", "contrastive", "front", "lda (trains nothing)"}


def test_the_diagram_names_every_method_and_joins_what_cannot_be_told_apart(tmp_path: Path, shown: Figures) -> None:
    clear = rank({str(k): {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6} for k in range(6)})
    alike = rank({"x": {"a": 3, "b": 2, "c": 1}, "y": {"a": 2, "b": 3, "c": 1}})
    assert not alike.differ
    for found, joined in ((clear, [[0.97, 2.03], [1.97, 3.03], [2.97, 4.03]]), (alike, [[1.47, 3.03]])):
        draw_critical_difference(found, "made", tmp_path / "made.png")
        bars = [line.get_xdata() for line in shown[-1].axes[0].lines if line.get_linewidth() == 3]
        np.testing.assert_allclose(bars, joined)
    texts = {text.get_text() for text in shown[0].axes[0].texts}
    assert {"a  1.00", "b  2.00", "3.00  c", "4.00  d", "critical difference 1.91"} <= texts


def test_settings_of_the_working_directory_start_no_tex_and_draw_no_huge_picture(tmp_path: Path) -> None:
    with matplotlib.rc_context({"text.usetex": True, "savefig.dpi": 1e9}):  # as by a file matplotlibrc
        file = draw_critical_difference(
            rank({"x": {"a": 3, "b": 2, "c": 1}, "y": {"a": 2, "b": 3, "c": 1}}), "$made", tmp_path / "made.png"
        )
    assert file.stat().st_size < 100_000


def test_a_hot_corner_is_red_and_a_cold_one_blue():
    image = np.full((20, 30, 3), 100, dtype=np.uint8)
    heat = np.zeros((4, 4))
    heat[0, 0] = 1.0
    result = overlaid(image, heat)
    assert result.shape == image.shape
    assert result[0, 0, 0] > result[0, 0, 2]
    assert result[-1, -1, 2] > result[-1, -1, 0]
    with pytest.raises(BadInput, match="at least 3 channels"):
        top_maps(np.zeros((2, 4, 4)))
