"""Figures: their content for each row, and the files written."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from made_runs import (
    Figures,
    change_metrics,
    class_means,
    draw_study,
    gathered,
    planned,
    trained_board,
    watched,
    write_run,
)
from PIL import Image

from levelfield.errors import BadInput, BadSpecification, UnknownName
from levelfield.reports.figures import check_figures, draw_figures, figures_of, names, why_not
from levelfield.reports.figures._rows import drawn
from levelfield.reports.figures.learned import draw
from levelfield.reports.figures.rho import correlation
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Cell
from levelfield.studies.runs.finished import compared
from levelfield.studies.runs.folder.files import read_spectrum, write_spectra
from levelfield.studies.runs.folder.store import write_plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import parse_study

PAIRS = ["margin", {"label": "R-margin", "margin": {"switch": 0.3}}, {"triplet": {"miner": "random"}}, "lda"]
OF_PAIRS = parse_study({"data": "emoji", "methods": PAIRS, "conditions": {"monitor": "test"}})
TRAINS, RESTS = {"data": "emoji", "methods": ["margin", "hist"]}, {"data": "emoji", "methods": ["lda", "untrained"]}
VALIDATES = {"protocol": {"validation": 0.2}, "conditions": {"select": "map@r"}}


# they open images or networks, which written runs do not have, or are written in test_image_figures.py
OF_IMAGES = ("activation-maps", "corruptions", "gallery", "map")
Made = tuple[Leaderboard, list[PlannedRun], Path]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A finished study with a regularised method and one that trains nothing."""
    runs, folder = planned(PAIRS, seeds=2), tmp_path_factory.mktemp("pairs")
    return trained_board(runs, folder), runs, folder


@pytest.mark.parametrize("name", [n for n in names() if why_not(n, OF_PAIRS) is None and n not in OF_IMAGES])
def test_a_figure_is_written_where_it_is_wanted(pairs: Made, tmp_path: Path, name: str) -> None:
    (path,) = draw_figures([name], *pairs, tmp_path)
    assert path == tmp_path / f"{name}.png"
    with Image.open(path) as picture:
        assert min(picture.size) > 150


def test_the_leaderboard_shows_every_row_with_its_interval(pairs: Made, shown: Figures) -> None:
    made, runs, folder = pairs
    assert draw_figures(["leaderboard"], made, runs, folder) == [folder / "leaderboard.png"]  # beside the tables
    (axis,) = shown[0].axes
    assert [text.get_text() for text in axis.get_yticklabels()] == [row.label for row in made.rows]
    assert len(axis.containers) == len(made.rows)


def test_each_test_set_has_a_panel_of_the_leaderboard(tmp_path: Path, shown: Figures) -> None:
    made = draw_study("leaderboard", tmp_path, ["margin", "triplet"], seeds=1, vary={"data": ["emoji", "photos"]})
    rows = {axis.get_title(loc="left"): [text.get_text() for text in axis.get_yticklabels()] for axis in shown[0].axes}
    assert rows == {name: [row.label for row in made.rows if row.test_set == name] for name in made.signatures}


@pytest.mark.parametrize(
    ("ties", "legend"),
    [([0, 2], "not distinguishable from the best row"), ([0], "the best row; no other ties with it")],
)
def test_rows_that_tie_with_the_best_are_shaded_and_the_legend_says_so(
    pairs: Made, tmp_path: Path, shown: Figures, ties: list[int], legend: str
) -> None:
    made, runs, folder = pairs
    rows = [replace(row, tied_with_best=number in ties) for number, row in enumerate(made.rows)]
    draw_figures(["leaderboard"], replace(made, rows=rows), runs, folder, tmp_path)
    shaded = [patch.get_y() + patch.get_height() / 2 for patch in shown[0].axes[0].patches]
    assert shaded == ties
    assert legend in told(shown[0])


def test_nothing_is_said_of_ties_or_intervals_that_are_not_known(tmp_path: Path, shown: Figures) -> None:
    runs = planned(PAIRS, seeds=1)
    made = trained_board(runs, tmp_path)
    plain = {metric: Cell(0.5) for metric in made.metrics}
    rows = [replace(row, tied_with_best=None, cells=plain) for row in made.rows]  # type: ignore[arg-type]
    unknown = replace(made, rows=rows)
    draw_figures(["leaderboard", "cost", "recall-rho", "spectra"], unknown, runs, tmp_path)
    assert not shown[0].axes[0].patches
    assert told(shown[0]) == {"trains nothing", "hollow: with a regulariser"}
    bars = [bar for figure in shown for axis in figure.axes for bar in axis.containers]
    assert not any(bar.has_xerr or bar.has_yerr for bar in bars)


def told(figure: matplotlib.figure.Figure) -> set[str]:
    return {text.get_text() for legend in figure.legends for text in legend.get_texts()}


def test_an_arrow_leads_from_a_method_to_itself_with_the_switch(pairs: Made, tmp_path: Path, shown: Figures) -> None:
    made, runs, folder = pairs
    draw_figures(["recall-rho"], made, runs, folder, tmp_path)
    (axis,) = shown[0].axes
    arrows = [text for text in axis.texts if getattr(text, "arrow_patch", None) is not None]
    points = {row.row.label: (row.rho, row.cell("recall@1").mean) for row in drawn(made, runs, folder)}
    assert [(arrow.xyann, arrow.xy) for arrow in arrows] == [(points["margin"], points["R-margin"])]
    labels = {text.get_text() for text in axis.texts} - {""}
    assert labels == {"margin", "R-margin", "triplet"}, "what trains nothing has no rho"
    trained = [row for row in drawn(made, runs, folder) if row.rho is not None]
    assert correlation(trained, "recall@1") == pytest.approx(1.0)
    assert correlation(trained[:1], "recall@1") is None


def test_recall_and_rho_have_intervals_and_every_test_set_a_panel(tmp_path: Path, shown: Figures) -> None:
    draw_study("recall-rho", tmp_path, ["margin", "triplet"], vary={"data": ["emoji", "photos"]})
    assert {axis.get_title().partition(";")[0] for axis in shown[0].axes} == {"emoji", "photos (2)"}
    bars = [bar for axis in shown[0].axes for bar in axis.containers]
    assert len(bars) == 4
    assert all(bar.has_xerr and bar.has_yerr for bar in bars)


def test_correlations_are_those_of_the_means_of_trained_rows(tmp_path: Path, shown: Figures) -> None:
    runs = planned(PAIRS, seeds=1)
    draw_figures(["correlations"], trained_board(runs, tmp_path), runs, tmp_path)
    (axis,) = shown[0].axes
    names = ["recall@1", "map@r", "nmi", "rho (training)"]
    assert [text.get_text() for text in axis.get_xticklabels()] == names
    texts = np.array([text.get_text() for text in axis.texts]).reshape(4, 4)
    assert texts[0].tolist() == ["1.00", "1.00", "", "1.00"], "nmi is the same in all made runs"
    assert axis.get_title() == "emoji: correlation over 3 rows"
    few = planned(["margin", "lda"], seeds=1)
    with pytest.raises(BadInput, match="needs 3 trained rows"):
        draw_figures(["correlations"], trained_board(few, tmp_path / "few"), few, tmp_path)


def test_a_figure_shows_other_studies_beside_its_own(tmp_path: Path, shown: Figures) -> None:
    runs, others = planned(["margin", "triplet"], seeds=1), planned(["triplet"], seeds=1, data="photos")
    made, _ = trained_board(runs, tmp_path / "a"), trained_board(others, tmp_path / "b")
    write_plan(tmp_path / "b", others)
    draw_figures(["recall-rho"], made, runs, tmp_path / "a", beside=[tmp_path / "b"])
    assert [len(axis.containers) for axis in shown[0].axes] == [2, 1]
    colours = [{line.get_label(): line.get_color() for line in axis.lines} for axis in shown[0].axes]
    assert colours[0]["triplet"] == colours[1]["triplet"], "a label has one colour in all panels"


def test_spectra_are_shares_and_a_pair_has_one_colour(pairs: Made, tmp_path: Path, shown: Figures) -> None:
    made, runs, folder = pairs
    draw_figures(["spectra"], made, runs, folder, tmp_path)
    _, whole, classes = shown[0].axes
    for axis in (whole, classes):
        lines = {line.get_label().partition(" (")[0]: line for line in axis.lines}
        assert set(lines) == {"margin", "R-margin", "triplet"}
        assert all(line.get_ydata().sum() == pytest.approx(1) for line in lines.values())
        assert lines["margin"].get_color() == lines["R-margin"].get_color() != lines["triplet"].get_color()
        assert (lines["margin"].get_linestyle(), lines["R-margin"].get_linestyle()) == ("-", "--")


def test_a_sweep_of_one_key_is_a_line_and_what_does_not_vary_a_level(tmp_path: Path, shown: Figures) -> None:
    vary = {"methods.margin.switch": [0, 0.2, 0.1], "methods.triplet.switch": [0, 0.1, 0.2]}
    runs = planned(["margin", "triplet", "lda"], seeds=1, vary=vary)
    assert len(runs) == 7
    made = trained_board(runs, tmp_path)
    draw_figures(["sweep"], made, runs, tmp_path)
    axis = shown[0].axes[0]
    lines = {line.get_label(): line for line in axis.lines}
    assert list(lines["margin"].get_xdata()) == list(lines["triplet"].get_xdata()) == [0, 0.1, 0.2]
    means = {row.label: row.cells["recall@1"].mean for row in made.rows}
    assert list(lines["margin"].get_ydata()) == [means[f"margin [switch={value}]"] for value in (0, 0.1, 0.2)]
    assert len(set(lines["lda"].get_ydata())) == 1


def test_a_sweep_of_several_studies_has_a_line_of_panels_for_each_dataset(tmp_path: Path, shown: Figures) -> None:
    swept: dict[str, Any] = {"methods": ["margin", "lda"], "seeds": 1, "vary": {"methods.margin.switch": [0, 0.1, 0.2]}}
    runs, others = planned(**swept), planned(**swept, data="photos")
    made, _ = trained_board(runs, tmp_path / "a"), trained_board(others, tmp_path / "b")
    write_plan(tmp_path / "b", others)
    draw_figures(["sweep"], made, runs, tmp_path / "a", beside=[tmp_path / "b"])
    assert [axis.get_title() for axis in shown[0].axes] == ["emoji", "emoji", "photos", "photos"]
    assert [len(axis.lines[0].get_xdata()) for axis in shown[0].axes if axis.get_ylabel() == "recall@1"] == [3, 3]


def test_a_sweep_of_two_keys_is_a_heat_map_whose_colours_are_not_stretched(tmp_path: Path, shown: Figures) -> None:
    vary = {"conditions.dim": [8, 16], "conditions.warmup": [1, 2, 3]}
    runs = planned(["margin", "triplet"], seeds=1, vary=vary)
    for number, run in enumerate(runs):
        write_run(run, tmp_path, class_means(0.6 + 0.001 * number))
    made = gathered(runs, tmp_path, ("recall@1",))
    draw_figures(["sweep"], made, runs, tmp_path)
    images = {axis.get_title(): image for axis in shown[0].axes for image in axis.images}
    means = {row.label.partition(" [")[0] + json.dumps(row.variation): row.cells["recall@1"].mean for row in made.rows}
    for (i, dim), (j, warmup) in product(enumerate((8, 16)), enumerate((1, 2, 3))):
        key = json.dumps({"conditions.dim": dim, "conditions.warmup": warmup})
        assert all(image.get_array()[i, j] == pytest.approx(means[label + key]) for label, image in images.items())
    [(low, high)] = {image.get_clim() for image in images.values()}
    assert high - low >= 0.12


def test_a_grid_of_batches_is_a_heat_map(tmp_path: Path, shown: Figures) -> None:
    made = draw_study(
        "sweep", tmp_path, ["margin"], seeds=1, vary={"conditions.batch": ["5x10", "5x9", "12x10", "12x9"]}
    )
    axis = shown[0].axes[0]
    assert (axis.get_ylabel(), axis.get_xlabel()) == ("classes in a batch", "images of a class")
    means = {row.variation["conditions.batch"]: row.cells["recall@1"].mean for row in made.rows}
    wanted = [[means[f"{classes}x{each}"] for each in (9, 10)] for classes in (5, 12)]
    np.testing.assert_allclose(axis.images[0].get_array(), wanted)


def test_curves_show_each_seed_thin_and_the_mean_of_those_that_came_so_far(tmp_path: Path, shown: Figures) -> None:
    runs = planned(["margin", "triplet", "lda"], seeds=2)
    made = trained_board(runs, tmp_path)
    early = next(run for run in runs if run.row == "margin" and run.spec.seed == 1)
    summary = json.loads((early.folder(tmp_path) / "metrics.json").read_text())["summary"]
    change_metrics(early.folder(tmp_path), summary={**summary, "monitored": watched(1, (0, 5))})
    draw_figures(["curves"], made, runs, tmp_path)
    panels = {axis.get_title(): axis for axis in shown[0].axes}
    assert set(panels) == {"margin", "triplet"}, "what does not train has no curve"
    lines = panels["margin"].lines
    named = {line.get_label(): line for line in lines if not line.get_label().startswith("_")}
    assert len(lines) == 6
    assert set(named) == {"training classes", "test classes"}
    np.testing.assert_allclose(named["test classes"].get_ydata(), [0.505, 0.555, 0.6])
    assert (panels["margin"].get_xlabel(), shown[0].axes[0].get_ylabel()) == ("steps", "recall@1")
    assert [text.get_text() for text in shown[0].legends[0].get_texts()] == ["training classes", "test classes"]


def test_curves_show_the_validation_classes_and_the_step_that_was_kept(tmp_path: Path, shown: Figures) -> None:
    runs = planned(["margin"], seeds=1, **VALIDATES)
    history = [{"step": 5, "value": 0.2}, {"step": 10, "value": 0.4}, {"step": 15, "value": 0.3}]
    write_run(runs[0], tmp_path, class_means(0.5), history=history, best_step=10)
    draw_figures(["curves"], gathered(runs, tmp_path), runs, tmp_path)
    (axis,) = shown[0].axes
    assert axis.get_ylabel() == "map@r"
    thin, kept, mean = axis.lines
    assert list(thin.get_ydata()) == list(mean.get_ydata()) == [0.2, 0.4, 0.3]
    assert (list(kept.get_xdata()), list(kept.get_ydata())) == ([10], [0.4])
    assert told(shown[0]) == {"validation classes", "step whose weights were kept"}


def test_curves_of_different_metrics_are_not_drawn_together(tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=2)
    made = trained_board(runs, tmp_path)
    folder = runs[0].folder(tmp_path)
    summary = json.loads((folder / "metrics.json").read_text())["summary"]
    other = [{**entry, "metric": "map@r"} for entry in watched(0)]
    change_metrics(folder, summary={**summary, "monitored": other})
    with pytest.raises(BadInput, match=r"different metrics during training: map@r, recall@1"):
        draw_figures(["curves"], made, runs, tmp_path)


def test_distributions_are_compared_class_by_class(tmp_path: Path, shown: Figures) -> None:
    """Three classes: the learned mean is right for the first, wrong for the others; spreads as they were made."""
    rows = np.array([[2.0, 0, 0], [5.0, 0, 0], [0, 1, 0], [0, 0, 3.0], [0, 0, -1.0], [0, 1.0, 0]])
    labels = np.array([0, 0, 2, 1, 1, 2])
    found = compared(np.array([[7.0, 0, 0], [0, 0.1, 0], [0, 0, 2.0]]), np.diag([1.0, 4, 2]), rows, labels)
    np.testing.assert_allclose(found.found_spreads, [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(found.learned_spreads, [1, 4, 2])
    np.testing.assert_allclose(found.found_means, [[1, 0, 0], [0, 0, 0], [0, 1, 0]], atol=1e-12)
    draw({"hist": found}, tmp_path / "distributions.png")
    matrix, scatter = shown[0].axes[:2]
    np.testing.assert_allclose(matrix.images[0].get_array(), [[1, 0, 0], [0, 0, 1], [0, 0, 0]], atol=1e-12)
    assert matrix.get_title() == "hist: own class 0.33, others 0.17"
    assert list(scatter.lines[0].get_ydata()) == [1, 4, 2]
    assert "correlation over 3 classes: 0.9" in scatter.get_title()


def test_figures_that_say_nothing_are_refused(tmp_path: Path) -> None:
    runs = planned(["lda"], seeds=1)
    made = trained_board(runs, tmp_path)
    nothing = {
        "sweep": "0 keys",
        "cost": "needs a row that was trained",
        "spectra": "needs a row that was trained",
        "recall-rho": "needs a row that was trained",
        "curves": "monitor: test",
        "distributions": "no finished run of `hist`",
    }
    for name, told in nothing.items():
        with pytest.raises(BadInput, match=told):
            draw_figures([name], made, runs, tmp_path)
    with pytest.raises(UnknownName, match=r"'spectre'\. Did you mean 'spectra'"):
        check_figures(["spectre"])


def test_a_study_that_varies_is_drawn_as_a_sweep_unless_it_says_otherwise() -> None:
    plain = {"data": "emoji", "methods": ["margin"]}
    assert figures_of(parse_study(plain)) == []
    assert figures_of(parse_study({**plain, "vary": {"conditions.dim": [8, 16]}})) == ["sweep"]
    assert figures_of(parse_study({**plain, "figures": "spectra"})) == ["spectra"]


TWO_KEYS = {"conditions.dim": [8, 16], "conditions.image": [32, 64]}
OF_METHODS = {"methods.margin.beta": [1, 2], "methods.triplet.margin": [1, 2], "conditions.dim": [8]}
THREE_KEYS = {f"conditions.{key}": [1, 2] for key in ("dim", "steps", "warmup")}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("sweep", TRAINS, "nothing varies"),
        ("sweep", {**TRAINS, "vary": THREE_KEYS}, "3 keys"),
        ("sweep", {**RESTS, "vary": TWO_KEYS}, None),
        ("sweep", {**TRAINS, "methods": ["margin", "triplet", "lda"], "vary": OF_METHODS}, None),
        ("curves", TRAINS, "conditions.monitor: test"),
        ("curves", {**RESTS, "conditions": {"monitor": "test"}}, "trains anything"),
        ("curves", {**TRAINS, "conditions": {"monitor": "test"}}, None),
        ("curves", {**TRAINS, **VALIDATES}, None),
        ("curves", {**TRAINS, "vary": {"conditions.monitor": ["none", "test"]}}, None),
        ("cost", RESTS, "trains anything"),
        ("cost", {**TRAINS, "methods": ["lda", "mine.py:Loss"]}, None),
        ("spectra", RESTS, "trains anything"),
        ("recall-rho", RESTS, "trains anything"),
        ("distributions", {**TRAINS, "methods": ["margin"]}, "it needs the method `hist`"),
        ("distributions", TRAINS, None),
        ("leaderboard", RESTS, None),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_trains(
    name: str, content: dict[str, Any], reason: str | None
) -> None:
    study = parse_study(content)
    if reason is None:
        assert check_figures([name], study) == [name]
        return
    with pytest.raises(BadSpecification, match=f"The figure '{name}' cannot be drawn for this study: .*{reason}"):
        check_figures(["leaderboard", name], study)


def test_training_spectra_are_those_of_unit_rows(tmp_path: Path) -> None:
    rows = np.array([[3.0, 0.0], [0.0, 5.0], [0.0, 0.0], [2.0, 0.0]])
    rho = write_spectra(tmp_path, rows, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(read_spectrum(tmp_path, "spectrum"), [2**0.5, 1])
    np.testing.assert_allclose(read_spectrum(tmp_path, "class_spectrum")[:2], [1, 0.5])
    share = np.array([2**0.5, 1]) / (2**0.5 + 1)
    assert rho == pytest.approx(np.mean(np.log(0.5 / share)))
    with pytest.raises(BadInput, match="the run trains nothing"):
        read_spectrum(tmp_path / "elsewhere", "spectrum")
