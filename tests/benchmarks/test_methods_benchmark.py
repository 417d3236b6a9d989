"""The benchmark of the methods in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import doctest
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
    """What a quick run prints and writes."""
    out = tmp_path_factory.mktemp("speed") / "methods.json"
    printed = script("methods", "--quick", "--out", str(out))
    return printed, json.loads(out.read_text(encoding="utf-8"))["figures"]


def test_every_figure_has_its_target_and_a_verdict(measured: tuple[str, list[dict[str, Any]]]) -> None:
    printed, figures = measured
    asked = {(figure["part"], figure["peer"]): figure["target"] for figure in figures}
    for method in ("hist", "message_passing", "drml"):
        assert asked[method, "its products"] == 1.3
        assert asked[method, "20 classes"] == 2
    assert asked["refine", "ranking them once"] == 20
    for figure in figures:
        assert np.isfinite(figure["value"])
        assert figure["machine"]["threads"] == 1
    assert "targets reached" in printed


def test_products_are_counted_as_their_equations_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    products = importlib.import_module("harness.method_products")
    assert doctest.testmod(products).failed == 0
    b, d, c, h, present = 112, 512, 11_318, 512, 28
    expected = 6 * (2 * b * d * c + b * present * b + b * d * h + b * b * h + b * h * c + b * b * h)
    assert sum(one.flops for one in products.hist(b, d, c, present=present)) == expected
    assert sum(one.flops for one in products.hist(b, d, 100, present=present)) == 6 * (
        2 * b * d * 100 + b * present * b + b * d * h + b * b * h + b * h * 100 + b * b * 100
    )
    assert sum(one.flops for one in products.message_passing(b, d, c)) == 6 * (
        4 * b * d * d + 2 * b * b * d + 8 * b * d * d + 2 * b * d * c
    )
