"""The startup benchmark: its table shows the measurements, and its studies can be reported."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def startup() -> Any:
    return importlib.import_module("startup")


def test_its_examples_hold(startup: Any) -> None:
    failed, tried = doctest.testmod(startup)
    assert tried
    assert not failed


def test_a_command_may_take_what_torch_takes_only_if_it_needs_torch(startup: Any) -> None:
    found = {startup.PASS: 0.02, startup.TORCH: 2.0, "light": 1.0, "heavy": 1.0}
    chosen = {"light": startup.Command(("x",), 0.5), "heavy": startup.Command(("x",), 0.5, torch=True)}
    *_, light, heavy = startup.table(found, chosen)
    assert light.endswith("0.50: TOO SLOW")
    assert heavy.endswith("2.50: good")


def test_a_process_is_measured_with_all_that_it_computes(startup: Any, tmp_path: Path) -> None:
    idle = startup.seconds(["-c", "pass"], tmp_path)
    busy = startup.seconds(["-c", "import time\nwhile time.process_time() < 0.5: pass"], tmp_path)
    assert busy.cpu > idle.cpu + 0.3


def test_the_made_study_is_whole_and_its_rows_differ(tmp_path: Path) -> None:
    from levelfield.studies.leaderboard.board import gather
    from levelfield.studies.runs.folder.store import read_plan

    made = importlib.import_module("harness.made_study")
    folder = made.make_study(tmp_path / "made", rows=3, seeds=2)
    board = gather("made", read_plan(folder), folder, made.METRICS)
    assert not board.missing
    assert [row.label for row in board.rows] == ["row 002", "row 001", "row 000"]
