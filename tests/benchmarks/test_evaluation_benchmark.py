"""The benchmark of the evaluation in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def measured(script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """What a quick run of one set prints and writes."""
    out = tmp_path_factory.mktemp("speed") / "evaluation.json"
    chosen = ("--only", "In-Shop-like", "--only", "full")
    printed = script("evaluation", "--quick", "--no-pml", *chosen, "--out", str(out), columns=120)
    return printed, json.loads(out.read_text(encoding="utf-8"))["figures"]


def test_every_figure_has_its_target(measured: tuple[str, list[dict[str, Any]]]) -> None:
    printed, figures = measured
    found = {(figure["what"], figure["peer"]): figure for figure in figures}
    assert found["every retrieval metric", "product"]["target"] == 1.3
    assert found["every retrieval metric", "product"]["good"] == 1.1
    assert found["extra memory", "-"]["unit"] == "MB"
    assert found["every metric in one call", "sum of the bounds"]["target"] == 2
    assert all(np.isfinite(figure["value"]) for figure in figures)
    assert "targets reached" in printed


def test_synthetic_sets_have_the_sizes_of_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    shape = importlib.import_module("harness.samples").Shape(3_000, 560, 2.2, sizes=(2, 12), dim=4)
    sample = shape.sample()
    sizes = np.bincount(sample.labels)
    assert (len(sample.query), len(sizes)) == (3_000, 560)
    assert 2 <= sizes.min() < sizes.max() <= 12
    assert sample.pairs == (sizes * (sizes - 1)).sum()
