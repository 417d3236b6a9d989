"""The check of a copy of CUB: one line per table, on a drawn miniature and with the commands in this process."""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path
from typing import Any

import pytest

from drawn_cub import draw_cub
from levelfield.cli import console, main
from levelfield.studies.execution.workers import run_all

TABLE = "lim2022/table5"


@pytest.fixture(scope="module")
def checking() -> Any:
    return importlib.import_module("check_data")


@pytest.fixture
def check(checking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The check of one table, on a copy of its own."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("levelfield.studies.execution.study.run_all", lambda *a, jobs, **k: run_all(*a, jobs=0, **k))
    monkeypatch.setattr("levelfield.distributed.processes.warm_up", lambda: None)
    root = draw_cub(tmp_path / "birds", training=16, test=4, each=2)
    sample = checking.draw_sample(root, tmp_path / "sample")

    def run(words: list[str]) -> Any:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(console.console, "_file", out)  # `file` would be put back as the stream of this test
        monkeypatch.setattr(console.error_console, "_file", err)
        with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(out):
            main(words)
        return checking.Ended(end.value.code, out.getvalue(), err.getvalue())

    how = {"allow_incomplete": True, "run": run, "kill": False}
    return checking.Check(TABLE, root, sample, tmp_path / "runs", **how)


def test_every_table_and_figure_on_cub_is_checked(checking: Any) -> None:
    tables = checking.tables()
    assert len(tables) == 30
    assert {"fehervari2019/fig1", "zheng2021/table1", "seidenschwarz2021/table7"} <= set(tables)
    assert "roth2020/table5" not in tables


def test_a_table_is_planned_trained_once_and_reported(check: Any, checking: Any) -> None:
    line, good = checking.line_of(check)
    assert good, line
    assert line.startswith(
        f"{TABLE:26}  5 methods,  5 runs: planned, trained, nothing twice, reported with 5 published"
    )
    assert line.endswith(": good")


def test_what_fails_is_told_with_the_command(check: Any, checking: Any) -> None:
    check.allow_incomplete = False
    line, good = checking.line_of(check)
    assert not good
    assert "FAILED: exit code 1: levelfield compare lim2022/table5 --on cub --root" in line
    assert "is not the official one" in line
