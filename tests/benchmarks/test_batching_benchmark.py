"""The benchmark of the batchings in its smallest form: it runs and reports its measurements; speed is not tested."""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

FOLDER = Path(__file__).parents[2] / "benchmarks"
SMALL = (
    "conditions.backbone=test_efficientnet",  # timm's smallest
    "conditions.taps=[blocks.3, blocks.4]",
    "conditions.weights=random",
    "conditions.image=32",
    "conditions.batch=4x2",
    "conditions.dim=4",
    "conditions.steps=20",
)


@pytest.fixture(scope="module")
def measured(script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """What a quick run prints and writes."""
    folder = tmp_path_factory.mktemp("squares")
    draw = np.random.default_rng(0)
    for number in range(64):
        place = folder / "photos" / f"class{number // 4:02d}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(place / f"{number}.png")
    options = [word for setting in (f"data={folder / 'photos'}", *SMALL) for word in ("--set", setting)]
    printed = script(
        "batching", "--quick", *options, "--out", str(folder / "batching.json"), LEVELFIELD_CACHE=str(folder / "cache")
    )
    return printed, json.loads((folder / "batching.json").read_text(encoding="utf-8"))["figures"]


def test_every_figure_has_its_target_and_a_verdict(measured: tuple[str, list[dict[str, Any]]]) -> None:
    printed, figures = measured
    targets = [(figure["part"], figure["target"]) for figure in figures]
    assert targets == [
        ("frd", 3.5),
        ("frd", 50),
        ("ddm", 2),
        ("ddm", 2),
        ("ddm", 8),
        ("ddm", 8),
        ("greedy_coreset", 4),
        ("greedy_coreset", 2.5),
        ("greedy_coreset", 40),
        ("greedy_coreset", 12),
        ("d2_coreset", 2),
        ("d2_coreset", 2),
        ("spc", 0.01),
        ("spc", 100),
        ("spc_r", 200),
    ]
    for figure in figures:
        assert np.isfinite(figure["value"])
        assert figure["value"] > 0
        assert figure["machine"]["threads"] == 1
    for text in ("straightforward", "training step of the demo", "59,551 images", "reached"):
        assert text in printed


def test_a_yardstick_that_chooses_other_batches_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    script, straight = importlib.import_module("batching"), importlib.import_module("harness.straightforward")
    assert doctest.testmod(straight).failed == 0
    labels = np.arange(200) % 20
    memory = script.embeddings(labels, 6)
    settings = {"batch_size": 12, "pool": 40}
    contest = next(contest for contest in script.CONTESTS if contest.name == "frd")
    script.check_same_batches(contest, labels, memory, settings)

    class Worst(contest.peer):  # type: ignore[misc, name-defined]
        def _scorer(self, rows: np.ndarray, reference: object) -> Any:
            score = super()._scorer(rows, reference)
            return lambda candidates: -score(candidates)

    wrong = script.Contest(contest.name, contest.what, contest.ours, Worst, contest.targets, {})
    with pytest.raises(AssertionError, match="other batches"):
        script.check_same_batches(wrong, labels, memory, settings)
