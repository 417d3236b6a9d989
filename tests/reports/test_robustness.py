"""The table of drops, from hand-written run folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_runs import METRICS, class_means, planned, write_run
from rich.console import Console

from levelfield.data import corruptions
from levelfield.files.writing import write_json
from levelfield.reports.robustness import robustness, robustness_csv, robustness_table, show_robustness
from levelfield.studies.leaderboard.board import gather
from levelfield.studies.specification.study import parse_study

NAMES = ("jpeg", "rotation")


def measured(folder: Path, **values: float) -> None:
    (folder / "corrupted").mkdir()
    for name, value in values.items():
        np.save(folder / "corrupted" / f"{name}.npy", np.zeros((1, 1)))
        note = {"corruption": corruptions.create(name).key, "values": {"recall@1": value}, "checksum": "unread"}
        write_json(folder / "corrupted" / f"{name}.json", note)


@pytest.fixture
def found(tmp_path: Path):
    runs = planned(["margin", "triplet"], seeds=2)
    for run, level in zip(runs, (0.8, 0.6, 0.7, 0.6), strict=True):  # seed by seed: margin, triplet, margin, triplet
        folder = write_run(run, tmp_path, class_means(level, spread=0.0))
        if not (run.label == "triplet" and run.spec.seed == 1):
            measured(folder, jpeg=level - 0.1, rotation=level - 0.2 - 0.1 * run.spec.seed)
    content = {"data": "emoji", "methods": ["margin", "triplet"], "seeds": 2, "corruptions": list(NAMES)}
    return robustness(parse_study(content), gather("made", runs, tmp_path, METRICS), runs, tmp_path)


def test_drops_are_means_over_the_runs_of_a_row(found) -> None:
    margin, triplet = found.rows
    assert margin.clean == pytest.approx(0.75)
    assert margin.drops == pytest.approx({"jpeg": 0.1, "rotation": 0.25})
    assert margin.mean_drop == pytest.approx(0.175)
    assert margin.spread == pytest.approx(np.std([0.15, 0.2], ddof=1))
    assert triplet.drops == pytest.approx({"jpeg": 0.1, "rotation": 0.2})
    assert triplet.spread is None


def test_what_is_missing_is_said(found) -> None:
    assert found.missing == ["triplet: 1 of 2 runs were not evaluated on corrupted images"]
    assert "Missing: triplet" in robustness_table(found).markdown()


def test_tables_hold_the_same_rows(found) -> None:
    assert robustness_csv(found).splitlines()[1].startswith("margin,0.750000,0.100000,0.250000,0.175000,0.03535")
    assert "| margin | 75.0 | 10.0 | 25.0 | 17.5 |" in robustness_table(found).markdown()
    console = Console(width=80, record=True)
    show_robustness(found, console)
    told = console.export_text()
    assert " rot " in told
    assert "rot: rotation" in told
    assert "rot:" not in robustness_table(found).markdown(), "there the names are whole"


def test_all_nine_fit_80_columns(found) -> None:
    from dataclasses import replace

    drops = dict.fromkeys(corruptions.names(), 0.1234)
    rows = [replace(row, label="normalized_softmax", drops=drops) for row in found.rows]
    console = Console(width=80, record=True)
    show_robustness(replace(found, corruptions=corruptions.names(), rows=rows), console)
    lines = console.export_text().splitlines()
    assert sum(line.startswith(" normalized_softmax") and line.count("12.3") == 9 for line in lines) == 2
    assert max(map(len, lines)) <= 80


def test_a_narrow_screen_has_a_further_table_and_every_figure(found) -> None:
    from dataclasses import replace

    drops = {name: -0.1 - k / 1000 for k, name in enumerate(corruptions.names())}
    rows = [replace(row, drops=drops) for row in found.rows]
    console = Console(width=50, record=True)
    show_robustness(replace(found, corruptions=corruptions.names(), rows=rows), console)
    told = console.export_text()
    assert "…" not in told
    assert told.count("method") == 2
    assert all(told.count(f"{100 * value:.1f}") == len(rows) for value in drops.values())
    assert max(map(len, told.splitlines())) <= 50


def test_a_study_that_corrupts_nothing_has_no_table(tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=1)
    write_run(runs[0], tmp_path, class_means(0.5))
    board = gather("made", runs, tmp_path, METRICS)
    assert robustness(parse_study({"data": "emoji", "methods": ["margin"]}), board, runs, tmp_path) is None
