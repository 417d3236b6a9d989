"""The table of drops, from hand-written run folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import METRICS, class_means, planned, printed, write_run

from levelfield.data import corruptions
from levelfield.files.writing import write_json
from levelfield.reports.robustness import Robustness, robustness
from levelfield.studies.leaderboard.board import gather
from levelfield.studies.specification.study import parse_study


def evaluated(folder: Path, **values: float) -> None:
    (folder / "corrupted").mkdir()
    for name, value in values.items():
        np.save(folder / "corrupted" / f"{name}.npy", np.zeros((1, 1)))
        note = {"corruption": corruptions.create(name).key, "values": {"recall@1": value}, "checksum": "unread"}
        write_json(folder / "corrupted" / f"{name}.json", note)


@pytest.fixture(scope="module")
def drops(tmp_path_factory: pytest.TempPathFactory) -> Robustness:
    runs, folder = planned(["margin", "triplet"], seeds=2), tmp_path_factory.mktemp("study")
    for run, level in zip(runs, (0.8, 0.6, 0.7, 0.6), strict=True):  # seed by seed: margin, triplet, margin, triplet
        place = write_run(run, folder, class_means(level, spread=0.0))
        if not (run.label == "triplet" and run.spec.seed == 1):
            evaluated(place, jpeg=level - 0.1, rotation=level - 0.2 - 0.1 * run.spec.seed)
    study = {"data": "emoji", "methods": ["margin", "triplet"], "seeds": 2}
    board = gather("made", runs, folder, METRICS)
    assert robustness(parse_study(study), board, runs, folder) is None
    return robustness(parse_study({**study, "corruptions": ["jpeg", "rotation"]}), board, runs, folder)


def test_drops_are_means_over_the_runs_of_a_row_and_missing_runs_are_named(drops: Robustness) -> None:
    margin, triplet = drops.rows
    assert margin["clean"] == pytest.approx(0.75)
    assert margin["drops"] == pytest.approx({"jpeg": 0.1, "rotation": 0.25})
    assert margin["mean_drop"] == pytest.approx(0.175)
    assert margin["spread"] == pytest.approx(np.std([0.15, 0.2], ddof=1))
    assert triplet["drops"] == pytest.approx({"jpeg": 0.1, "rotation": 0.2})
    assert triplet["spread"] is None
    assert drops.missing == ["triplet: 1 of 2 runs were not evaluated on corrupted images"]


def test_files_and_terminal_have_the_same_rows(drops: Robustness, tmp_path: Path) -> None:
    assert [path.name for path in drops.write(tmp_path)] == [f"robustness.{kind}" for kind in ("json", "csv", "md")]
    lines = (tmp_path / "robustness.csv").read_text().splitlines()
    assert lines[1].startswith("margin,0.750000,0.100000,0.250000,0.175000,0.03535")
    markdown = (tmp_path / "robustness.md").read_text()
    assert "| margin | 75.0 | 10.0 | 25.0 | 17.5 |" in markdown
    assert "Missing: triplet" in markdown
    assert "rot: rotation" in printed(drops.show)
    assert "rot:" not in markdown, "there the names are whole"


def test_all_nine_corruptions_fit_80_columns_and_a_narrow_screen_gets_a_further_table(drops: Robustness) -> None:
    values = {name: -0.1 - k / 1000 for k, name in enumerate(corruptions.names())}
    rows = [dict(row, label="normalized_softmax", drops=values) for row in drops.rows]
    nine = replace(drops, corruptions=corruptions.names(), rows=rows)
    for width, tables in ((80, 1), (50, 2)):
        text = printed(nine.show, width=width)
        assert text.count("method") == tables
        assert "…" not in text
        assert all(text.count(f"{100 * value:.1f}") == len(rows) for value in values.values())
        assert max(map(len, text.splitlines())) <= width
