"""Terminal, Markdown, CSV and JSON come from the same rows and state the result in words."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import board_of, change_metrics, class_means, planned, printed, write_run

from levelfield.errors import BadSpecification
from levelfield.evaluation.statistics.needed import Needed
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, show, write_all
from levelfield.reports.leaderboard.verdicts import verdicts
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.leaderboard.claims import Verdict
from levelfield.studies.leaderboard.rows import Cell


def test_the_demo_fits_80_columns_and_nothing_is_cut_off(demo_board: Leaderboard) -> None:
    text = printed(show, demo_board)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for row in demo_board.rows:
        assert row.label in text
        assert f"{row.cells['recall@1'].mean:.3f}" in text
    assert "0.420 3840-d" in text


def test_long_names_are_folded_and_no_figure_is_cut(demo_board: Leaderboard) -> None:
    named = [replace(row, label=f"{row.label} with a very long name [backbone=bninception]") for row in demo_board.rows]
    for width in (80, 60):
        text = printed(show, replace(demo_board, rows=named, comparisons=[]), width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        for row in demo_board.rows:
            figures = [f"{cell.mean:.3f}" for cell in row.cells.values()]
            assert all(re.search(rf"(?<![\d.]){figure}(?!\d)", text) for figure in figures)


def test_metrics_without_room_follow_in_another_table(demo_board: Leaderboard) -> None:
    more = {f"recall@{k}": k / 1000 for k in (2, 4, 8, 16, 32)}
    rows = [
        replace(row, cells={**row.cells, **{name: Cell(value) for name, value in more.items()}})
        for row in demo_board.rows
    ]
    text = printed(show, replace(demo_board, rows=rows, metrics=[*demo_board.metrics, *more]))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert all(text.count(f" {name} ") == 1 for name in more)
    assert text.count(" 0.032 ") >= len(rows)


def test_the_terminal_says_what_became_of_the_claims(demo_board: Leaderboard) -> None:
    found = Verdict("a > b", "recall@1", "roth2020 table 4", "holds", 0.02, 0.01, 0.03, 0.01)
    text = printed(show, replace(demo_board, claims=[found]), width=100)
    assert text.splitlines()[-2:] == ["Claims", f"- {found.text}"]
    assert "Claims" not in printed(show, demo_board)


def test_csv_json_and_markdown_agree(demo_board: Leaderboard, tmp_path: Path) -> None:
    written = {path.suffix: path.read_text(encoding="utf-8") for path in write_all(demo_board, tmp_path)}
    rows = json.loads(written[".json"])["rows"]
    lines = list(csv.DictReader(io.StringIO(written[".csv"])))
    table = [line for line in written[".md"].splitlines() if re.match(r"\| \d", line)]
    fields = [[field.strip() for field in line.strip("|").split("|")] for line in table]
    assert len(rows) == len(lines) == len(fields) == len(demo_board.rows) == 10
    for rank, (row, line, shown) in enumerate(zip(rows, lines, fields, strict=True), 1):
        assert (line["rank"], line["method"]) == (str(rank), row["label"]) == (shown[0], shown[1])
        for metric, column in (("recall@1", 2), ("map@r", 5), ("nmi", 8)):
            cell = row["cells"][metric]
            assert float(line[f"{metric} mean"]) == pytest.approx(cell["mean"], abs=1e-6)
            assert float(shown[column].split()[0]) == pytest.approx(cell["mean"], abs=5.1e-4)
            for part, key in {"low": "low", "high": "high", "sd_over_seeds": "spread"}.items():
                said = line[f"{metric} {part}"]
                assert (float(said) if said else None) == pytest.approx(cell[key], abs=1e-6)
        assert shown[3] == f"{row['cells']['recall@1']['low']:.3f}-{row['cells']['recall@1']['high']:.3f}"
        assert line["seeds"] == str(len(row["seeds"]))
        assert line["deviations"].split("; ") == (row["deviations"] or [""])
        assert shown[-1] == (", ".join(row["deviations"]) or "none")


def test_labels_with_special_signs_break_no_table(tmp_path: Path) -> None:
    label = 'a|b, "c" [red]d'
    runs = planned([{"label": label, "margin": {}}], seeds=1)
    write_run(runs[0], tmp_path, class_means(0.5))
    board = gather("made", runs, tmp_path, ("recall@1",))
    assert next(csv.DictReader(io.StringIO(as_csv(board))))["method"] == label
    [line] = [line for line in as_markdown(board).splitlines() if line.startswith("| 1 ")]
    [head] = [line for line in as_markdown(board).splitlines() if line.startswith("| # ")]
    assert len(re.split(r"(?<!\\)\|", line)) == len(head.split("|"))
    assert label in printed(show, board, width=120)


def test_ties_differences_and_what_would_resolve_them_are_said_once_each(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"margin": 0.6, "triplet": 0.6, "contrastive": 0.4})
    lines = verdicts(board)
    assert "Holm-corrected over 3 pairs" in lines[0]
    assert lines[1:] == ["- margin: tie with triplet; better than contrastive.", "- triplet: better than contrastive."]
    assert all(line in " ".join(printed(show, board, width=200).split("\n")) for line in lines[1:])
    tie = replace(board.comparison("margin", "triplet"), missing="seeds", needed_seeds=Needed(7, 4, None))  # type: ignore[type-var]
    others = [one for one in board.comparisons if {one.first, one.second} != {"margin", "triplet"}]
    lines = verdicts(replace(board, comparisons=[tie, *others]))
    assert lines[-1] == "What would resolve a tie with margin, with 80 % power: triplet 7 seeds (95 %: 4 or more)."
    assert not any("resolve" in line for line in verdicts(replace(board, comparisons=others)))
    nothing = "Nothing to compare: one row, or no metric with a value per query."
    assert verdicts(replace(board, comparisons=[])) == [nothing]


def test_that_nothing_can_be_established_is_said_before_the_table(tmp_path: Path) -> None:
    board = board_of(tmp_path, {"margin": 0.6, "triplet": 0.6})
    [one] = board.comparisons
    tie = replace(one, difference=0.05, classes=6, missing="classes", needed_classes=Needed(14, 8, None))
    board = replace(board, comparisons=[tie])
    told = (
        "6 test classes and 2 seeds: no difference can be established; 14 classes would be needed to detect a "
        "difference of 0.05"
    )
    for text in (printed(show, board, width=200), as_markdown(board)):
        assert text.index(told) < text.index("95 % interval")
    assert board.as_data()["limit"] == f"{told}0."


def test_missing_runs_and_warnings_are_said_in_every_text(demo_board: Leaderboard) -> None:
    row = replace(demo_board.rows[0], warnings=["the embedding collapsed"])
    board = replace(demo_board, missing=["margin, seed 2"], rows=[row, *demo_board.rows[1:]])
    for text in (as_markdown(board), printed(show, board)):
        assert "Missing: margin, seed 2." in text
        assert f"{row.label}: the embedding collapsed." in text
    assert "the embedding collapsed" in as_csv(board).splitlines()[1]


def test_deviations_are_letters_explained_below(demo_board: Leaderboard) -> None:
    text = printed(show, demo_board)
    explained = dict(re.findall(r"\b([a-z]): ([^;.]+?(?:\.\d+)?)(?=[;.]\s)", text.partition("Deviations from")[2]))
    assert set(explained.values()) == {text for row in demo_board.rows for text in row.deviations}


def test_varied_values_have_their_own_columns_in_the_csv(tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=1, vary={"conditions.dim": [8, 16]})
    for run in runs:
        write_run(run, tmp_path, class_means(0.4 + 0.01 * run.spec.conditions.dim), dim=run.spec.conditions.dim)
    board = gather("made", runs, tmp_path, ("recall@1",))
    plain = replace(board.rows[0], label="plain", variation={})
    mixed = as_csv(replace(board, rows=[plain, *board.rows]))
    assert next(csv.DictReader(io.StringIO(mixed)))["conditions.dim"] == ""
    assert [line["conditions.dim"] for line in csv.DictReader(io.StringIO(as_csv(board)))] == ["16", "8"]


def test_geometry_says_of_which_set_it_is_and_never_ranks(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"], seeds=2)
    for run in runs:
        folder = write_run(run, tmp_path, class_means(0.5))
        value = float("inf") if (run.label, run.spec.seed) == ("triplet", 0) else 0.4
        stored = json.loads((folder / "metrics.json").read_text())
        signatures = {**stored["signatures"], "rho": stored["signatures"]["nmi"]}
        change_metrics(folder, values={**stored["values"], "rho": value}, signatures=signatures)
    board = gather("made", runs, tmp_path, ("rho", "nmi"))
    assert board.metrics == ["nmi", "rho"]
    assert "rho (test)" in printed(show, board)
    assert "| rho (test) |" in as_markdown(board)
    assert "rho (test) mean" in as_csv(board)
    assert sorted(row.cells["rho"].mean for row in board.rows) == [0.4, float("inf")]
    with pytest.raises(BadSpecification, match="rho: descriptive metrics cannot rank embeddings"):
        gather("made", runs, tmp_path, ("rho",))


def test_the_time_for_planning_batches_is_printed_where_it_counts(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"], seeds=2)
    for run in runs:
        planning = 1.0 if run.label == "margin" else 0.01
        write_run(run, tmp_path, class_means(0.5, seed=run.spec.seed), seconds=4.0, planning=planning)
    text = printed(show, gather("made", runs, tmp_path, ("recall@1",)))
    assert "margin: 1.0 of its 4.0 seconds were spent planning batches." in " ".join(text.split())
    assert "triplet: 0" not in text
