"""The benchmark of the objectives in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from levelfield import objectives

FOLDER = Path(__file__).parents[2] / "benchmarks"
CHOSEN = ("contrastive", "nt_xent", "triplet", "proxy_anchor", "structured_clustering")


@pytest.fixture(scope="module")
def measured(script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """What a quick run of a few objectives prints and writes."""
    out = tmp_path_factory.mktemp("speed") / "objectives.json"
    options = [word for name in CHOSEN for word in ("--only", name)]
    printed = script("objectives", "--quick", *options, "--out", str(out), columns=120)
    return printed, json.loads(out.read_text(encoding="utf-8"))["figures"]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A file of the benchmarks by its name; they are scripts beside each other, not a package."""

    def load(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(FOLDER))
        return importlib.import_module(name)

    return load


def test_every_figure_has_its_bound_and_a_verdict(measured: tuple[str, list[dict[str, Any]]]) -> None:
    printed, figures = measured
    found = {(figure["part"], figure["peer"]): figure for figure in figures}
    assert found["contrastive, all", "sim"]["target"] == 1.6
    assert found["contrastive, all", "sim"]["good"] == 1.2
    assert found["triplet, semihard random", "sim"]["target"] == 2.0
    assert found["structured_clustering", "-"]["unit"] == "ms"
    assert {("nt_xent", "peak memory"), ("proxy_anchor", "products"), ("proxy_anchor", "peak memory")} <= set(found)
    for figure in figures:
        assert np.isfinite(figure["value"])
        assert figure["value"] > 0
        assert figure["machine"]["threads"] == 1
    assert "targets reached" in printed


def test_closed_forms_are_measured_against_their_own_definition(measured: tuple[str, list[dict[str, Any]]]) -> None:
    _, figures = measured
    against = {figure["part"] for figure in figures if figure["peer"] == "definition"}
    assert {"contrastive, all", "triplet, all", "triplet, semihard all", "proxy_anchor"} <= against
    without = {"triplet, semihard random", "nt_xent"}
    assert not without & against
    assert without < {figure["part"] for figure in figures}


def test_pml_is_measured_in_the_same_run_or_its_absence_said(measured: tuple[str, list[dict[str, Any]]]) -> None:
    printed, figures = measured
    against = {figure["part"] for figure in figures if figure["peer"] == "PML"}
    if importlib.util.find_spec("pytorch_metric_learning"):
        assert {"nt_xent", "triplet, all", "triplet, semihard all", "proxy_anchor"} <= against
    else:
        assert "Without PML" in printed


def test_every_objective_is_in_a_contest(module: Any) -> None:
    contests = module("harness.contests")
    entered = {contest.objective for contest in [*contests.CONTESTS, *contests.PROXY_CONTESTS]}
    assert set(objectives.names()) == entered | set(contests.ELSEWHERE)


def test_no_contest_asks_pml_for_more_memory_than_there_is(module: Any) -> None:
    contests = module("harness.contests")
    largest = {
        contest.name: max(layout.batch for layout in contest.faster) for contest in contests.CONTESTS if contest.faster
    }
    assert largest["nt_xent"] == largest["lifted_structure"] == 112
    assert largest["snr, all"] == largest["histogram, 65"] == largest["angular, all"] == 512


@pytest.mark.parametrize("classes", [100, 11_318])
def test_batches_stay_within_the_classes_and_lie_anywhere_among_them(module: Any, classes: int) -> None:
    script = module("objectives")
    rows, labels = script.batch_of(512, 4)
    assert labels.bincount().tolist() == [4] * 128
    found = script.spread(labels, classes)
    assert len(found.unique()) == min(128, classes)
    assert 0.9 * classes < found.max() < classes
    assert rows.shape == (512, script.DIM)


def test_the_peak_of_memory_is_what_lay_there_at_once(module: Any) -> None:
    import torch

    peak = module("harness.memory").peak_bytes
    rows = torch.ones(256, 1024)
    assert peak(lambda: (rows + 1).sum()) == pytest.approx(rows.nbytes, rel=0.01)
    assert peak(lambda: (rows + 1) + (rows + 2)) == pytest.approx(3 * rows.nbytes, rel=0.01)


def test_figures_that_were_not_measured_again_are_kept(module: Any, tmp_path: Path) -> None:
    figures = module("harness.figures")
    path = tmp_path / "figures.json"
    for value in (1.0, 2.0):
        figures.save(
            path, [figures.Figure("a", f"batch {what}", "sim", value, 1.5, True) for what in range(3 - int(value))]
        )
    saved = {entry["what"]: (entry["value"], entry["reached"]) for entry in json.loads(path.read_text())["figures"]}
    assert saved == {"batch 0": (2.0, False), "batch 1": (1.0, True)}


@pytest.mark.parametrize("name", ["harness.figures", "harness.interleaved"])
def test_examples_of_the_shared_files_work(module: Any, name: str) -> None:
    assert doctest.testmod(module(name)).failed == 0
