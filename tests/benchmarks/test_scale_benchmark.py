"""The benchmark of scale in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np


def test_parts_are_measured_printed_and_kept(script: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "scale.json"
    printed = script("scale", "--quick", "--only", "gather", "--only", "accumulate", "--out", str(out), columns=150)
    figures = json.loads(out.read_text(encoding="utf-8"))["figures"]
    assert [figure["part"] for figure in figures] == ["gather", "gather", "accumulate"]
    for figure in figures:
        assert np.isfinite(figure["value"])
        assert figure["value"] > 0
    for target in ("<= 1.100x", "<= 1.450x"):
        assert target in printed
