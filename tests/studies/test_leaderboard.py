"""The leaderboard on hand-written run folders and in a notebook: known results, incompatible runs refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from levelfield.errors import BadInput, UnknownName
from levelfield.evaluation.statistics.comparisons import Comparison

sys.path.append(str(Path(__file__).parents[1] / "reports"))

from made_runs import CLASSES, EACH, change_metrics, class_means, gathered, planned, write_run

from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.rows import Cell, Row


def test_means_intervals_and_spreads_are_those_of_the_runs(tmp_path: Path) -> None:
    runs = planned(["margin"])
    for seed, run in enumerate(runs):
        write_run(run, tmp_path, class_means(0.5 + 0.01 * seed), nmi=0.7 + 0.1 * seed, seconds=1.0 + seed)
    [row] = gathered(runs, tmp_path).rows
    assert row.seeds == [0, 1, 2]
    assert row.seconds == pytest.approx(2.0)
    assert row.cells["recall@1"].mean == pytest.approx(0.51)
    assert row.cells["recall@1"].spread == pytest.approx(0.01)
    assert row.cells["map@r"].mean == pytest.approx(0.255)
    assert row.cells["nmi"].mean == pytest.approx(0.8)
    # classes lie uniformly within 0.2 of the mean: a standard error of 0.115 / sqrt(40)
    interval = row.cells["recall@1"]
    assert interval.low < 0.51 < interval.high
    least = 2 * 2.02 * np.sqrt(0.4**2 / 12 / CLASSES + 0.01**2 / 3)  # training again is in it, too
    assert least * 0.9 < interval.high - interval.low < 1.4 * least
    assert (row.cells["nmi"].low, row.cells["nmi"].high) == (None, None)
    assert row.first_run == str(runs[0].folder(tmp_path))  # the test figures choose no seed


def test_a_small_difference_on_all_classes_is_found_though_the_intervals_overlap(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"])
    for run in runs:
        write_run(run, tmp_path, class_means(0.52 if run.label == "margin" else 0.50, seed=run.spec.seed))
    found = gathered(runs, tmp_path)
    first, second = (row.cells["recall@1"] for row in found.rows)
    assert first.low < second.high
    [comparison] = found.comparisons
    assert comparison.winner == "margin"
    assert comparison.difference == pytest.approx(0.02)
    assert [(row.label, row.tied_with_best) for row in found.rows] == [("margin", True), ("triplet", False)]


def test_the_same_difference_with_other_hard_classes_is_a_tie(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"], seeds=1)
    for k, run in enumerate(runs):
        write_run(run, tmp_path, class_means(0.52 - 0.02 * k, seed=k))
    found = gathered(runs, tmp_path)
    assert not found.comparisons[0].better()
    assert not found.comparisons[0].retrained
    assert found.limit.startswith("40 test classes: no difference was established")
    assert all(row.tied_with_best for row in found.rows)


def test_equal_runs_are_a_tie_with_nothing_between_them(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet", "contrastive"])
    for run in runs:
        write_run(run, tmp_path, class_means(0.5, seed=run.spec.seed))
    for comparison in gathered(runs, tmp_path).comparisons:
        assert (comparison.difference, comparison.p, comparison.winner) == (0.0, None, None)


def test_a_row_that_no_seed_changes_is_compared_with_every_seed(tmp_path: Path) -> None:
    runs = planned(["lda", "margin"])
    assert [run.label for run in runs] == ["lda", "margin", "margin", "margin"]
    for run in runs:
        level = 0.5 if run.label == "lda" else (0.50, 0.55, 0.60)[run.spec.seed]
        write_run(run, tmp_path, class_means(level), steps=0 if run.label == "lda" else 10)
    found = gathered(runs, tmp_path)
    assert gathered(runs[:1], tmp_path).best_trained.label == "lda"
    [comparison] = found.comparisons
    assert (comparison.first, comparison.second) == ("margin", "lda")
    assert comparison.difference == pytest.approx(0.05)  # the mean over all three seeds, not that of the first
    lda = found.rows[1]
    assert (lda.seeds, lda.cells["recall@1"].spread, lda.trained) == ([0], None, False)
    assert comparison.retrained
    assert comparison.seeds == (3, 1)
    assert found.training_gain == comparison


def test_rows_are_compared_by_the_figures_of_the_table_if_some_have_fewer_seeds(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"])
    for run in runs:
        if (run.label, run.spec.seed) != ("triplet", 2):
            write_run(run, tmp_path, class_means(0.5 + (0.3 if run.spec.seed == 2 else 0.0)))
    found = gathered(runs, tmp_path)
    assert found.missing == ["triplet, seed 2"]
    assert found.comparisons[0].difference == pytest.approx(0.1)  # 0.6 of three seeds, 0.5 of two
    assert found.comparisons[0].seeds == (3, 2)
    assert [row.seeds for row in found.rows] == [[0, 1, 2], [0, 1]]


def test_lone_queries_do_not_count(tmp_path: Path) -> None:
    means = class_means(0.5)
    [run] = planned(["margin"], seeds=1)
    folder = write_run(run, tmp_path, means, lone=range(EACH))
    [row] = gathered([run], tmp_path).rows
    assert row.cells["recall@1"].mean == pytest.approx(means[1:].mean())
    with np.load(folder / "per_query.npz") as arrays:
        assert arrays["lone"].sum() == EACH


@pytest.mark.parametrize("changed", [{"ties": "optimistic"}, {"lone": "miss"}, {"queries": 7}, {"engine": "0"}])
def test_a_column_with_two_definitions_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    runs = planned(["margin", "triplet", "contrastive"], seeds=1)
    for run in runs:
        write_run(run, tmp_path, class_means(0.5), definition=changed if run.label == "triplet" else None)
    with pytest.raises(BadInput, match=r"'recall@1' of triplet, seed 0, .* cannot share a column"):
        gathered(runs, tmp_path)


def test_another_representation_is_printed_in_the_cell(tmp_path: Path) -> None:
    runs = planned(["untrained", "margin", "triplet"], seeds=1)
    for run in runs:
        write_run(run, tmp_path, class_means(0.5), dim=3840 if run.label == "untrained" else 128)
    shown = {row.label: row.cells["map@r"].representation for row in gathered(runs, tmp_path).rows}
    assert shown == {"untrained": "3840-d", "margin": "", "triplet": ""}


def test_without_a_finished_run_of_all_metrics_there_is_no_leaderboard(tmp_path: Path) -> None:
    [run] = planned(["margin"], seeds=1)
    with pytest.raises(BadInput, match="No finished run of 'made'"):
        gathered([run], tmp_path)
    write_run(run, tmp_path, class_means(0.5))
    with pytest.raises(BadInput, match="mrr"):
        gathered([run], tmp_path, ("recall@1", "mrr"))


def test_the_first_metric_with_a_value_per_query_ranks(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"], seeds=1)
    for run in runs:
        high = run.label == "margin"
        write_run(run, tmp_path, class_means(0.6 if high else 0.5), nmi=0.4 if high else 0.6)
    assert [row.label for row in gathered(runs, tmp_path).rows] == ["margin", "triplet"]
    by_clusters = gathered(runs, tmp_path, ("nmi", "recall@1"))
    assert by_clusters.metrics == ["recall@1", "nmi"]  # what has a value per query is tested, so it ranks
    assert [row.label for row in by_clusters.rows] == ["margin", "triplet"]
    assert by_clusters.comparisons[0].difference == pytest.approx(0.1)
    assert gathered(runs, tmp_path, ("nmi",)).comparisons == []


def test_the_winner_what_is_as_good_and_what_training_gains(tmp_path: Path) -> None:
    levels = {"lda": 0.5, "margin": 0.6, "triplet": 0.6, "contrastive": 0.4}
    runs = planned(list(levels))
    for run in runs:
        steps = 0 if run.label == "lda" else 5
        write_run(run, tmp_path, class_means(levels[run.label], seed=run.spec.seed), steps=steps)
    found = gathered(runs, tmp_path)
    assert (found.best_trained.label, [tie.second for tie in found.ties("margin")]) == ("margin", ["triplet"])
    gain = found.training_gain
    assert (gain.first, gain.second, gain.winner) == ("margin", "lda", "margin")
    assert 0 < gain.low < gain.difference
    lost = found.comparison("contrastive", "lda")
    assert (lost.first, lost.winner) == ("contrastive", "lda")
    assert lost.difference == pytest.approx(-0.1)
    assert found.limit == ""


def test_collapse_and_idle_batches_are_warnings(tmp_path: Path) -> None:
    runs = planned(["margin"], seeds=2)
    for run in runs:
        write_run(run, tmp_path, class_means(0.5), collapsed=run.spec.seed == 1, idle_batches=3)
    [row] = gathered(runs, tmp_path).rows
    assert row.warnings == ["the embedding collapsed", "6 batches without an active tuple"]


def test_rows_tested_on_different_images_are_not_compared(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet"], seeds=1, vary={"data": ["emoji", "photos"]})
    for run in runs:
        other = run.spec.data.name == "photos"
        write_run(run, tmp_path, class_means(0.5), definition={"queries": 7, "gallery": 7} if other else None)
    found = gathered(runs, tmp_path)
    pairs = [{one.first, one.second} for one in found.comparisons]
    assert pairs == [{"margin [data=emoji]", "triplet [data=emoji]"}, {"margin [data=photos]", "triplet [data=photos]"}]
    assert [made["recall@1"]["queries"] for made in found.signatures.values()] == [200, 7]


def test_damaged_files_and_folders_of_another_run_do_not_count(tmp_path: Path) -> None:
    runs = planned(["margin", "triplet", "contrastive", "hist"], seeds=1)
    _, changed, empty, other = (write_run(run, tmp_path, class_means(0.5)) for run in runs)
    change_metrics(changed, values={"recall@1": 0.9})  # the others were not measured
    (empty / "metrics.json").write_text("")
    described = other / "run.yaml"
    described.write_text(described.read_text().replace(runs[3].spec.identity, "f" * 12))
    first, second, third = gathered(runs, tmp_path).missing
    assert (first, third) == ("triplet, seed 0", "hist, seed 0")
    assert second.startswith("contrastive, seed 0: ")
    assert second.endswith("metrics.json is empty. Run `levelfield compare` (or `ensemble`) to make it again")


@pytest.fixture
def board() -> Leaderboard:
    best = {"recall@1": Cell(0.75, 0.7, 0.8, 0.0125), "nmi": Cell(0.5)}
    plain = {"recall@1": Cell(0.5), "nmi": Cell(0.25)}
    rows = [
        Row("margin <script>", True, [0, 1], best, 7.25, ["extra parameters 1", "dim 64 (128)"], [], {"dim": 64}, "a"),
        Row("lda", False, [0], plain, 0.0, [], [], {"dim": 128}, "b"),
    ]
    compared = [Comparison("margin <script>", "lda", 0.25, 0.2, 0.3, 8.0, 20.0, 0.01, 0.01, 50, (2, 1), True)]
    return Leaderboard("made", ["recall@1", "nmi"], rows, compared, {}, ["lda, seed 1 & 2"])


def test_the_line_says_who_is_first(board: Leaderboard) -> None:
    assert repr(board) == "Leaderboard('made': 2 rows, best by recall@1 'margin <script>' 0.750)"
    assert repr(replace(board, rows=[])) == "Leaderboard('made': no rows)"


def test_the_table_has_the_rows_and_every_text_is_escaped(board: Leaderboard) -> None:
    without_alignment = board._repr_html_().replace(' style="text-align: right"', "")
    assert without_alignment == (
        "<table><caption>made: best first by recall@1</caption><thead><tr><th>#</th><th>method</th><th>recall@1</th>"
        "<th>95 % interval</th><th>sd</th><th>nmi</th><th>sec</th><th>deviations</th></tr></thead><tbody>"
        "<tr><td>1</td><td>margin &lt;script&gt;</td><td>0.750</td><td>0.700-0.800</td><td>0.013</td><td>0.500</td>"
        "<td>7.2</td><td>extra parameters 1; dim 64 (128)</td></tr>"
        "<tr><td>2</td><td>lda</td><td>0.500</td><td></td><td>-</td><td>0.250</td><td>-</td><td>-</td></tr>"
        "</tbody></table><p>Missing: lda, seed 1 &amp; 2</p>"
    )


def test_pandas_gets_rows_and_comparisons(board: Leaderboard) -> None:
    pytest.importorskip("pandas")
    rows = board.to_pandas()
    assert rows.index.tolist() == ["margin <script>", "lda"]
    assert rows["recall@1"].tolist() == [0.75, 0.5]
    assert rows.loc["margin <script>", "recall@1 low"] == 0.7
    assert rows["dim"].tolist() == [64, 128]
    assert rows["deviations"].tolist() == ["extra parameters 1; dim 64 (128)", ""]
    pairs = board.to_pandas("comparisons")
    assert pairs[["first", "second", "difference"]].values.tolist() == [["margin <script>", "lda", 0.25]]
    with pytest.raises(UnknownName, match="Did you mean 'comparisons'"):
        board.to_pandas("comparison")
