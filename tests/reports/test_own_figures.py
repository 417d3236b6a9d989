"""Figures of costs, mean ranks and activation maps: positions of their elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_runs import Figures, class_means, planned, write_run

from levelfield.errors import BadInput
from levelfield.evaluation.statistics.friedman import rank
from levelfield.reports.dataset_ranks import draw_critical_difference
from levelfield.reports.figures import draw_figures
from levelfield.reports.figures.activation_maps import overlaid, top_maps
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.runs.spec import PlannedRun

LEVELS = {"lda": 0.50, "margin": 0.60, "triplet": 0.58, "contrastive": 0.45}
SECONDS = {"margin": 9.0, "triplet": 4.0, "contrastive": 2.0}


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


def test_costs_far_apart_are_drawn_on_a_logarithmic_axis(tmp_path: Path, shown: Figures) -> None:
    board, runs = study_of_costs(tmp_path, scale=40.0)
    draw_figures(["cost"], board, runs, tmp_path)
    assert shown[0].axes[0].get_xscale() == "log"


def test_each_test_set_has_panels_and_a_front_of_its_own(tmp_path: Path, shown: Figures) -> None:
    board, runs = study_of_costs(tmp_path, vary={"data": ["emoji", "photos"]})
    draw_figures(["cost"], board, runs, tmp_path)
    assert [axis.get_title(loc="left") for axis in shown[0].axes[::2]] == list(board.signatures)
    assert {text.get_text() for text in shown[0].legends[0].get_texts()} == {
        "margin",
        "triplet",
        "contrastive",
        "front",
        "lda (trains nothing)",
    }


def test_what_trains_nothing_has_no_cost_to_draw(tmp_path: Path) -> None:
    [run] = planned(["lda"])
    write_run(run, tmp_path, class_means(0.5), steps=0)
    with pytest.raises(BadInput, match="needs a row that was trained"):
        draw_figures(["cost"], gather("study_of_costs", [run], tmp_path, ("recall@1",)), [run], tmp_path)


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


def test_a_hot_corner_is_red_and_a_cold_one_blue():
    image = np.full((20, 30, 3), 100, dtype=np.uint8)
    heat = np.zeros((4, 4))
    heat[0, 0] = 1.0
    result = overlaid(image, heat)
    assert result.shape == image.shape
    assert result[0, 0, 0] > result[0, 0, 2]
    assert result[-1, -1, 2] > result[-1, -1, 0]


def test_too_few_channels_are_refused():
    with pytest.raises(BadInput, match="at least 3 channels"):
        top_maps(np.zeros((2, 4, 4)))
