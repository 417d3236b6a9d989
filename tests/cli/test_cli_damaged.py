"""Commands on a study with a damaged run: name the file and the reason, keep the other runs; compare repairs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_room import Levelfield


@pytest.fixture
def damaged(trained: Path) -> Path:
    """A run whose figures of each query are cut off."""
    stored = trained / "per_query.npz"
    stored.write_bytes(stored.read_bytes()[:-30])
    return trained


def test_a_report_keeps_the_other_runs_and_names_the_damaged_file(levelfield: Levelfield, damaged: Path) -> None:
    said = levelfield("report", "runs/small").printed.replace("\n", " ")
    assert f"Missing: contrastive, seed 0: runs/small/contrastive/{damaged.name}/per_query.npz is" in said
    assert "normalized_softmax" in said


@pytest.mark.parametrize("command", [["ensemble"], ["ensemble", "--metrics", "mrr"]])
def test_a_damaged_run_is_not_joined(levelfield: Levelfield, damaged: Path, command: list[str]) -> None:
    [other] = Path("runs/small/lda").glob("seed0-*")
    said = levelfield(*command, damaged, other, "--out", "both").error
    assert "per_query.npz" in said
    assert "to make it again" in said


def test_rows_of_a_damaged_run_are_not_measured(levelfield: Levelfield, trained: Path) -> None:
    stored = trained / "embeddings.npy"
    content = bytearray(stored.read_bytes())
    content[-9] ^= 1
    stored.write_bytes(content)
    assert "embeddings.npy is damaged: its checksum differs" in levelfield("evaluate", trained).error


def test_compare_plans_and_makes_the_damaged_run_again(levelfield: Levelfield, damaged: Path) -> None:
    assert "contrastive" in levelfield("compare", "small.yaml", "--dry-run").printed
    assert "Missing" not in levelfield("-q", "compare", "small.yaml").printed
    assert "recall@1" in levelfield("evaluate", damaged).printed


@pytest.mark.parametrize("content", ["null", "{}", '[{"label": "../x"}]', "[" * 100_000, "\udcff"])
@pytest.mark.parametrize("command", ["report", "ranks"])
def test_a_damaged_plan_is_named(levelfield: Levelfield, compared: Path, content: str, command: str) -> None:
    Path("runs/small/runs.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    said = levelfield(command, "runs/small").error
    assert "runs/small/runs.json" in said
