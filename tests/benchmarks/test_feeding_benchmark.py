"""The benchmark of the loader in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def test_every_view_and_number_of_workers_stands_beside_its_peer(script: Callable[..., str], tmp_path: Path) -> None:
    printed = script("feeding", "--quick", "--out", str(tmp_path / "feeding.json"), columns=160)
    figures = json.loads((tmp_path / "feeding.json").read_text(encoding="utf-8"))["figures"]
    for view in ("training view", "test view"):
        for workers in (0, 1, 2):
            wanted = (f"{view}, workers: {workers}", f"plain DataLoader, workers: {workers}")
            [figure] = [one for one in figures if (one["what"], one["peer"]) == wanted]
            assert min(figure["value"], figure["facts"]["images_per_second"]) > 0
            assert wanted[0] in printed
