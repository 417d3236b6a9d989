"""`levelfield tune`, and `compare` that searches settings first."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_room import Levelfield

SMALL = ["small.yaml", "conditions.batch=2x2", "seeds=1", "methods=[lda, contrastive]", "--sampler", "halton"]


def test_a_search_ends_with_a_study_that_can_be_compared(levelfield: Levelfield, room: Path) -> None:
    printed = " ".join(levelfield("tune", *SMALL, "--trials", "7").printed.split())
    assert "Tuning: 7 trials per method, sampler halton, recall@1" in printed
    assert "With 5 trials each" in printed
    assert "the test classes chose nothing" in printed
    tuned = room / "runs/small-tuning/tuned.yaml"
    assert f"levelfield compare {tuned.relative_to(room)}" in printed
    assert (tuned.parent / "tuning.png").stat().st_size > 10_000
    assert (tuned.parent / "tuning.csv").read_text().startswith("method,default,best,trial,best of 1 expected")
    board = " ".join(levelfield("compare", tuned).printed.split())
    assert "Tuning: 7 trials per method" in board
    assert "shrinkage" in board
    rows = {line.partition(",")[0]: line for line in (tuned.parent / "tuning.csv").read_text().splitlines()}
    assert "shrinkage (0.05 to 0.9)" in rows["lda"]
    assert "neg_margin (0.3 to 1.4)" in rows["contrastive"]
    assert (room / "runs/small-tuned/tuning.md").exists()
    again = " ".join(levelfield("report", "runs/small-tuned").printed.split())
    assert "Tuning: 7 trials per method" in again
    alone = levelfield("compare", tuned, "methods=[lda]", "name=one").printed.partition("Tuning:")[2]
    assert "lda" in alone
    assert "contrastive" not in alone


def test_compare_searches_first_if_it_is_asked_to(levelfield: Levelfield, room: Path) -> None:
    words = ["conditions.batch=2x2", "seeds=1", "methods=[lda]"]
    printed = " ".join(levelfield("compare", "small.yaml", *words, "--trials", "2").printed.split())
    assert "small-tuned: best first" in printed
    assert "Tuning: 2 trials per method" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["small.yaml", "--trials", "3", "--budget", "5m"], "--trials and --budget cannot be combined"),
        (["small.yaml", "--budget", "soon"], "'soon' is no"),
        (["small.yaml", "--folds", "2", "--validation", "0.2"], "--validation and --folds cannot be combined"),
        (["small.yaml", "--sampler", "tpee"], "Did you mean 'tpe'?"),
        (["small.yaml", "--search", "contrastive.neg_margin"], "write it as"),
        (["small.yaml", "--search", "contrastive.neg_margin=[2, 1]"], "Use [1, 2, linear] or [1, 2, log] for a range"),
        (["small.yaml", "--metric", "recal@1"], "recall@1"),
        (["small.yaml", "--folds", "9"], "9 folds need at least as many"),
        (["missing.yaml"], "missing.yaml"),
        ([], "Name a study"),
    ],
)
def test_a_bad_search_is_one_message(levelfield: Levelfield, room: Path, words: list[str], message: str) -> None:
    assert message in " ".join(levelfield("tune", *words).error.split())
    assert not (room / "runs/small-tuning/tuned.yaml").exists()


def test_a_dry_run_prints_ranges_runs_and_time(levelfield: Levelfield, room: Path) -> None:
    printed = " ".join(levelfield("tune", *SMALL, "--trials", "7", "--dry-run").printed.split())
    assert "small: 7 trials per method, sampler halton, recall@1, judged by validation classes" in printed
    assert "contrastive 7" in printed
    assert "neg_margin 0.3 to 1.4" in printed
    assert "with 1 job for 14 runs" in printed
    assert not (room / "runs").exists()


def test_a_dry_run_without_the_data_says_what_is_missing(levelfield: Levelfield, room: Path) -> None:
    words = ["methods=[margin, losses.py:Plain]", "--trials", "16", "--search", "common.lr=[0.001, 0.1, log]"]
    (room / "losses.py").write_text("import torch\n\nclass Plain(torch.nn.Module):\n    pass\n")
    printed = " ".join(levelfield("tune", "roth2020/table4", *words, "--dry-run").printed.split())
    assert "margin 16 - beta 0.1 to 1.4" in printed
    assert "Plain 16 - nothing: as many seeds instead" in printed
    assert "Before it, once for all methods: lr 0.001 to 0.1 (log)." in printed
    assert "Time unknown" in printed
