"""Names in figures: none overlaps another, none leaves the figure, none is read as a formula."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from made_runs import Figures, class_means, gathered, planned, watched, write_run
from matplotlib.text import Text

from levelfield.evaluation.statistics.friedman import rank
from levelfield.reports.dataset_ranks import draw_critical_difference
from levelfield.reports.figures import draw_figures
from levelfield.reports.figures._drawing import shortened
from levelfield.reports.figures._placing import overlaps
from levelfield.reports.figures.activation_maps import draw_activation_maps
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.runs.folder.files import write_spectra
from levelfield.studies.runs.spec import PlannedRun

HOSTILE = [
    "$x_1^2$",
    "$",
    "a$b$c$^^$",
    "_under_",
    "<b>bold & 'quotes'",
    "日本語",
    "naïve – Ω",
    "عربى",
    "%d {braces} #",
    "x" * 120,
    "y" * 120 + "1",
    "y" * 120 + "2",
]
CASES = {"hostile": HOSTILE, "many": [f"margin with another beta, number {k}" for k in range(40)]}
FIGURES = ["leaderboard", "cost", "recall-rho", "spectra"]


def study(labels: list[str], folder: Path, **content: Any) -> tuple[Leaderboard, list[PlannedRun], Path]:
    """All methods within 0.01 of each other, in what they reach and what they cost."""
    methods = [{"label": label, "margin": {"beta": 1 + k / 100}} for k, label in enumerate(labels)]
    runs = planned([*methods, {"label": "$lda_", "lda": {}}], seeds=1, **content)
    for k, run in enumerate(runs):
        near, summary = 0.01 * (k % 7) / 7, {"steps": 0}
        if run.spec.method.name != "lda":
            costs = {"peak_bytes": int(690e6 * (1 + near)), "rows_through_trunk": 100, "images": 100}
            summary = {"steps": 5, "rho_train": 0.3 + near, "monitored": watched(k % 3), **costs}
        place = write_run(run, folder, class_means(0.6 + near), seconds=30 * (1 + near), **summary)
        write_spectra(place, np.random.default_rng(k).normal(size=(20, 6)), np.arange(20) % 4)
    return gathered(runs, folder), runs, folder


@pytest.fixture(scope="module", params=CASES)
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return study(CASES[request.param], tmp_path_factory.mktemp(request.param))


def texts(figure: matplotlib.figure.Figure) -> Iterator[Text]:
    """All that is written and seen: ticks beyond the ends of their axis are not."""
    ticks = {text: seen for axis in figure.axes for one in (axis.xaxis, axis.yaxis) for text, seen in _ticks(one)}
    for text in figure.findobj(Text):
        hidden = text.axes is not None and not text.axes.get_visible()
        if text.get_text().strip() and text.get_visible() and ticks.get(text, True) and not hidden:
            yield text


def _ticks(axis: Any) -> Iterator[tuple[Text, bool]]:
    low, high = sorted(axis.get_view_interval())
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        shown = axis.axes.get_visible() and axis.axes.axison and low <= tick.get_loc() <= high
        yield tick.label1, shown and tick.label1.get_visible()
        yield tick.label2, False


def check(figure: matplotlib.figure.Figure) -> None:
    found: list[tuple[Text, np.ndarray]] = []
    frame = figure.bbox.extents
    for text in texts(figure):
        box = Text.get_window_extent(text).extents  # the text alone: an annotation's extent has its line in it as well
        inside = np.concatenate((box[:2] >= frame[:2], box[2:] <= frame[2:]))
        assert inside.all(), f"{text.get_text()!r} leaves the figure"
        over = [other.get_text() for other, place in found if overlaps(box, place[None])]
        assert not over, f"{text.get_text()!r} lies on {over}"
        found.append((text, box))


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_overlaps_another_or_leaves_the_figure(
    crowded: tuple[Leaderboard, list[PlannedRun], Path], name: str, shown: Figures, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_figures([name], *crowded, tmp_path)
    check(shown[0])


def test_every_method_is_named_as_it_is_written(tmp_path: Path, painted: Figures) -> None:
    made = study(HOSTILE, tmp_path)
    draw_figures(FIGURES, *made)
    for figure in painted:
        found = {text.get_text() for text in texts(figure)}
        found |= {text.partition(" (rho")[0] for text in found} | {text.partition("  ")[2] for text in found}
        assert set(shortened(HOSTILE)[:9]) <= found
        assert not any(text.get_parse_math() for text in texts(figure))


def test_rows_of_one_method_are_numbered_in_the_figure_of_cost(tmp_path: Path, shown: Figures) -> None:
    board, runs, folder = study(["first", "second"], tmp_path, vary={"conditions.dim": [8, 16, 24, 32, 64]})
    draw_figures(["cost"], board, runs, folder)
    trained = [(number, row.label) for number, row in enumerate(board.rows, 1) if row.trained]
    for axis in shown[0].axes:
        assert {text.get_text() for text in axis.texts} == {str(number) for number, _ in trained}
    named = {text.get_text() for text in shown[0].legends[0].get_texts()}
    assert {f"{number}  {label}" for number, label in trained} <= named
    check(shown[0])


def test_curves_with_any_label_and_a_sweep_with_any_value_are_drawn(tmp_path: Path, shown: Figures) -> None:
    draw_figures(["curves"], *study([*HOSTILE[:4], HOSTILE[-1], HOSTILE[-2]], tmp_path / "curves"))
    vary = {"methods.$a$.beta": [k / 10 for k in range(14)]}
    draw_figures(["sweep"], *study(["$a$", "x" * 90], tmp_path / "sweep", vary=vary))
    for figure in shown:
        check(figure)


def test_shortened_names_stay_distinct() -> None:
    names = shortened([f"{'a' * 60}{k}{'b' * 60}" for k in range(12)])
    assert len(set(names)) == 12
    assert max(map(len, names)) <= 40


def test_names_of_a_rank_diagram_and_of_maps_do_not_overlap(tmp_path: Path, shown: Figures) -> None:
    table = {str(k): {label: (k * place) % 7 for place, label in enumerate(HOSTILE)} for k in range(1, 5)}
    draw_critical_difference(rank(table), "$title_", tmp_path / "ranks.png")
    maps = {label: [np.random.default_rng(0).random((3, 4, 4))] for label in HOSTILE[-4:]}
    draw_activation_maps([np.zeros((8, 8, 3), np.uint8)], maps, tmp_path / "maps.png")
    for figure in shown:
        check(figure)
