"""The benchmarks in their smallest form: they run and report their measurements with targets; speed is not tested."""

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

from levelfield import objectives

# benchmark -> its words, and (part or what, peer) of figures with their targets; None: any
RUNS: dict[str, tuple[tuple[str, ...], dict[tuple[str, str], float | None]]] = {
    "batching": (
        ("--photos",),
        {
            ("frd", "straightforward"): 3.5,
            ("ddm", "straightforward"): 2,
            ("greedy_coreset", "straightforward"): 4,
            ("d2_coreset", "straightforward"): 2,
        },
    ),
    "evaluation": (
        ("--no-pml", "--only", "In-Shop-like", "--only", "full"),
        {("every retrieval metric", "product"): 1.3, ("every metric in one call", "sum of the bounds"): 2},
    ),
    "feeding": ((), {("training view, workers: 2", "plain DataLoader, workers: 2"): 1.0}),
    "methods": ((), {("hist", "its products"): 1.3, ("drml", "20 classes"): 2, ("refine", "ranking them once"): 20}),
    "objectives": (
        ("--only", "contrastive", "--only", "nt_xent", "--only", "triplet", "--only", "proxy_anchor"),
        {
            ("contrastive, all", "sim"): 1.6,
            ("triplet, semihard random", "sim"): 2.0,
            ("proxy_anchor", "definition"): None,
            ("nt_xent", "peak memory"): None,
        },
    ),
    "scale": (("--only", "gather", "--only", "accumulate"), {}),
    "training": (
        ("--photos", *(word for part in ("loop", "cached", "cache", "photos") for word in ("--only", part))),
        {("photos", "bare loop over the same maps"): 1.1, ("photos", "bare loop over decoded tensors"): 1.25},
    ),
}
SMALL = (
    "conditions.backbone=test_efficientnet",  # timm's smallest
    "conditions.taps=[blocks.2, blocks.3, blocks.4]",
    "conditions.weights=random",
    "conditions.image=32",
    "conditions.batch=4x2",
    "conditions.dim=4",
    "conditions.steps=20",
)
HARNESS = ("figures", "interleaved", "method_products", "shortened", "straightforward")
WITH_EXAMPLES = ("cluster", "ship", "startup", *(f"harness.{name}" for name in HARNESS))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares of noise in 16 classes."""
    folder, draw = tmp_path_factory.mktemp("squares") / "photos", np.random.default_rng(0)
    for number in range(64):
        path = folder / f"class{number // 4:02d}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_runs_and_every_figure_has_its_peer_and_target(
    name: str, script: Callable[..., str], photos: Path, tmp_path: Path
) -> None:
    words, targets = RUNS[name]
    if words[:1] == ("--photos",):
        words = (*words[1:], *(word for each in (f"data={photos}", *SMALL) for word in ("--set", each)))
        words = (*words, "--images", str(photos)) if name == "training" else words
    out = tmp_path / "figures.json"
    printed = script(name, "--quick", *words, "--out", str(out), LEVELFIELD_CACHE=str(tmp_path / "cache"))
    figures = json.loads(out.read_text(encoding="utf-8"))["figures"]
    assert figures
    for figure in figures:
        assert np.isfinite(figure["value"])
        assert figure["what"] in printed or figure["part"] in printed
        if figure.get("target") is not None:
            difference = figure["value"] - figure["target"]
            assert figure["reached"] == (difference <= 0 if figure["at_most"] else difference >= 0)
    result: dict[tuple[str, str], list[float | None]] = {}
    for figure in figures:
        for key in {figure["what"], figure["part"]}:
            result.setdefault((key, figure["peer"]), []).append(figure["target"])
    for key, target in targets.items():
        assert key in result
        assert target is None or target in result[key], key


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_hold(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried
    assert not failed


def test_every_objective_is_in_a_contest() -> None:
    contests: Any = importlib.import_module("harness.contests")
    entered = {contest.objective for contest in [*contests.CONTESTS, *contests.PROXY_CONTESTS]}
    assert set(objectives.names()) == entered | set(contests.ELSEWHERE)


@pytest.fixture(scope="module")
def cluster() -> Any:
    return importlib.import_module("cluster")


def test_the_measured_times_of_one_to_three_nodes_are_reproduced(cluster: Any) -> None:
    stored = json.loads(cluster.STORED.read_text())
    assert stored["measured"]["times"].keys() == {"1", "2", "3"}
    for nodes, seconds in cluster.predicted(stored["measured"], cluster.Pieces(**stored["pieces"])).items():
        assert seconds == pytest.approx(stored["measured"]["times"][str(nodes)], rel=cluster.MOST_OFF)
