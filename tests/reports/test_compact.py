"""The table of compact embeddings, from hand-written run folders."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_runs import CLASSES, LABELS, METRICS, class_means, embed, planned, printed, write_run

from levelfield.errors import BadInput
from levelfield.evaluation import compact, evaluate, paired_differences
from levelfield.evaluation.compacting import Compacted, form_names
from levelfield.reports import Report
from levelfield.reports.compact_scores import compact_csv, compact_markdown, compact_tables, show_compact, write_compact
from levelfield.reports.page.study_tables import tables_of
from levelfield.studies.leaderboard.board import gather
from levelfield.studies.leaderboard.compact import CompactCell, CompactRow, CompactTable, compact_table
from levelfield.studies.runs.folder.files import write_training
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import parse_study

DIM = 32
NAMES = [f"class {label}" for label in LABELS]


def drawn(*seed: int, dim: int = DIM) -> np.ndarray:
    """Embeddings of 40 classes that overlap."""
    random = np.random.default_rng(seed)
    return (random.normal(size=(CLASSES, dim))[LABELS] + 1.2 * random.normal(size=(len(LABELS), dim))).astype("f4")


def made(runs: list[PlannedRun], folder: Path, monkeypatch: pytest.MonkeyPatch, *, fitted: int = 200) -> CompactTable:
    """The table of runs whose test and training rows are drawn from their places in the plan."""
    train = {}
    for number, run in enumerate(runs):
        place = write_run(run, folder, class_means(0.8 - 0.1 * number))
        embed(place, drawn(0, number), NAMES)
        train[place] = drawn(1, number)[:fitted]
    monkeypatch.setattr("levelfield.studies.leaderboard.compact.embed_part", lambda place, part: (train[place], part))
    return compact_table(gather("made", runs, folder, METRICS), runs, folder)


def test_one_seed_has_the_scores_and_intervals_of_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(planned(["margin", "triplet"], seeds=1), tmp_path, monkeypatch)
    assert (table.metric, [row.label for row in table.rows], table.left_out) == ("recall@1", ["margin", "triplet"], [])
    for number, row in enumerate(table.rows):
        forms = compact(drawn(1, number), drawn(0, number))
        assert list(row.cells) == list(forms) == form_names(DIM)
        right = {
            name: evaluate(form.rows, LABELS, metrics=["recall@1"], distance=form.distance, ci=0.95)
            for name, form in forms.items()
        }
        for name, cell in row.cells.items():
            interval = right[name].intervals["recall@1"]
            assert cell.bytes == forms[name].bytes
            assert (cell.mean, cell.low, cell.high) == pytest.approx((interval.mean, interval.low, interval.high))
            if name == "float32":
                assert cell.difference is None
                continue
            apart = paired_differences(right[name], right["float32"])["recall@1"]
            assert cell.difference == pytest.approx(apart.mean)
            if np.isnan(apart.low):
                assert cell.difference_low is None
            else:
                assert (cell.difference_low, cell.difference_high) == pytest.approx((apart.low, apart.high))


def test_scores_and_differences_are_means_over_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(planned(["margin"], seeds=2), tmp_path, monkeypatch, fitted=20)
    [row] = table.rows
    assert row.seeds == [0, 1]
    forms = [compact(drawn(1, seed)[:20], drawn(0, seed)) for seed in row.seeds]

    def recall(form: Compacted) -> float:
        return evaluate(form.rows, LABELS, metrics=["recall@1"], distance=form.distance)["recall@1"]

    values = np.array([[recall(of_seed[name]) for of_seed in forms] for name in row.cells])
    assert [cell.mean for cell in row.cells.values()] == pytest.approx(values.mean(axis=1))
    differences = [cell.difference for cell in row.cells.values()][1:]
    assert differences == pytest.approx((values[1:] - values[:1]).mean(axis=1))
    assert all(cell.low is not None and cell.low < cell.mean < (cell.high or 0) for cell in row.cells.values())
    assert table.left_out == ["margin, whitened 32: the training embeddings vary in fewer dimensions."]
    assert "whitened 16" in row.cells


def test_rows_that_cannot_be_compacted_are_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = planned(["margin", "triplet", "contrastive", "hist", "softtriple"], seeds=1)
    made(runs, tmp_path, monkeypatch)
    places = {run.label: run.folder(tmp_path) for run in runs}
    told = {"summary": {"step": 5, "seconds": 2.5, "collapsed": False, "idle_batches": 0}, "deviations": []}
    write_training(places["triplet"], {**told, "measured": {"dim": DIM, "bits": 1}})
    write_training(places["contrastive"], {**told, "measured": {"dim": DIM, "refined": "reciprocal k=5"}})
    (places["hist"] / "embeddings.npy").unlink()

    def embed_part(place: Path, part: str) -> tuple[np.ndarray, str]:
        if place == places["softtriple"]:
            raise BadInput(f"{place} has no model.")
        return drawn(1, 0), part

    monkeypatch.setattr("levelfield.studies.leaderboard.compact.embed_part", embed_part)
    table = compact_table(gather("made", runs, tmp_path, METRICS), runs, tmp_path)
    assert [row.label for row in table.rows] == ["margin"]
    binary, refined, untested, bare = table.left_out
    assert binary == "triplet: its embeddings are binary codes, one bit per number."
    assert refined.startswith("contrastive: ")
    assert "cannot repeat its refinement of test embeddings (reciprocal k=5)" in refined
    assert untested.startswith(f"hist: {places['hist']} has no test embeddings")
    assert bare == f"softtriple: {places['softtriple']} has no model."
    for text in table.left_out:
        assert f"Left out: {text}" in compact_markdown(table)
        assert f"Left out: {text}" in " ".join(printed(show_compact, table, width=400).split())


@pytest.fixture
def wide() -> CompactTable:
    """Two rows of 128 numbers, one of 16; the second has no whitened 128."""
    rows = []
    for place, (label, dim) in enumerate([("normalized_softmax", 128), ("margin", 128), ("a|b", 16)]):
        sizes = {name: 4 * (k + 1) for k, name in enumerate(form_names(dim))}
        cells = {
            name: CompactCell(size, 0.9 - 0.1 * place - size / 1e4, 0.5, 0.95, -size / 1e4, -0.02, 0.01)
            for name, size in sizes.items()
            if (label, name) != ("margin", "whitened 128")
        }
        cells["float32"] = CompactCell(4, 0.9 - 0.1 * place)
        rows.append(CompactRow(label, dim, [0, 1], cells, ["seed0-1", "seed1-1"]))
    return CompactTable("recall@1", rows, ["lda: no reason."])


def test_all_eleven_forms_fit_80_columns_and_every_score_a_narrow_screen(wide: CompactTable) -> None:
    lines = printed(show_compact, replace(wide, rows=wide.rows[:2])).splitlines()
    assert any(line.startswith("white: whitened.") for line in lines)
    assert max(map(len, lines)) <= 80
    [first] = [line.split() for line in lines if line.split()[:1] == ["margin"]]
    assert len(first) == 1 + len(form_names(128))
    assert first[form_names(128).index("whitened 128") + 1] == "-"
    top = next(place for place, line in enumerate(lines) if line.split()[:1] == ["method"])
    heads = [line.split() for line in lines[top - 2 : top + 1]]
    assert heads[0] == ["float", "float", "int8", "bits", *["first"] * 3, *["white"] * 4]
    assert heads[1] == ["32", "16", "64", "32", "16", "128", "64", "32", "16"]
    assert heads[2][1::2] == [str(4 * (k + 1)) for k in range(11)]
    narrow = printed(show_compact, wide, width=50)  # has further tables
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 50
    assert narrow.count("method") == 3  # two for 128 numbers, one for 16
    assert all(f"{cell.mean:.3f}" in narrow for row in wide.rows for cell in row.cells.values())


def test_files_hold_scores_with_intervals(wide: CompactTable, tmp_path: Path) -> None:
    paths = write_compact(wide, tmp_path)
    assert [path.name for path in paths] == ["compact.json", "compact.csv", "compact.md"]
    content = json.loads(paths[0].read_text())
    assert content["rows"][1]["cells"]["int8"] == vars(wide.rows[1].cells["int8"])
    lines = list(csv.DictReader(compact_csv(wide).splitlines()))
    assert len(lines) == sum(len(row.cells) for row in wide.rows)
    [int8] = [line for line in lines if (line["method"], line["stored as"]) == ("a|b", "int8")]
    assert (int8["dim"], int8["bytes"], int8["recall@1 low"], int8["seeds"]) == ("16", "12", "0.500000", "2")
    assert int8["recall@1 difference"] == "-0.001200"
    markdown = compact_markdown(wide)
    assert "| method | float32 (4 bytes) | float16 (8 bytes) | int8 (12 bytes) |" in markdown
    assert "| a\\|b | 0.700 | 0.699 (0.500-0.950) |" in markdown


def test_the_page_has_one_table_for_each_size(wide: CompactTable, tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=1)
    write_run(runs[0], tmp_path, class_means(0.5))
    study, board = parse_study({"data": "emoji", "methods": ["margin"]}), gather("made", runs, tmp_path, METRICS)
    tables = {table.title: table for table in tables_of(Report(board, None, [], compact=wide), study, runs)}
    large, small = (tables[f"Compact embeddings, {dim} dimensions"].as_data() for dim in compact_tables(wide))
    assert [row[0] for row in large["rows"]] == ["normalized_softmax", "margin"]
    assert large["columns"][:3] == ["method", "float32 (4 bytes)", "float16 (8 bytes)"]
    assert small["rows"][0][:3] == ["a|b", "0.700", "0.699 (0.500-0.950)"]
    assert "Left out: lda: no reason." in small["note"]
    one = tables_of(Report(board, None, [], compact=replace(wide, rows=wide.rows[:2])), study, runs)
    assert [table.title for table in one if "Compact" in table.title] == ["Compact embeddings"]
    assert not [table for table in tables_of(Report(board, None, []), study, runs) if "Compact" in table.title]
