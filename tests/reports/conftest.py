"""A leaderboard of hand-written runs with the demo's labels, and the figures that a test draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

import matplotlib.figure
import pytest
from made_runs import METRICS, class_means, planned, write_run
from PIL import Image

from levelfield import library
from levelfield.studies.leaderboard.board import Leaderboard, gather

LEVELS = {
    "untrained features": 0.42,
    "random projection": 0.30,
    "head at its start": 0.48,
    "LDA (closed form)": 0.66,
    "contrastive": 0.60,
    "triplet": 0.59,
    "margin": 0.66,
    "multi_similarity": 0.64,
    "proxy_anchor": 0.65,
    "normalized_softmax": 0.63,
}


@pytest.fixture(scope="session")
def demo_board(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """As the demo's, with deviations and a representation of another width."""
    folder = tmp_path_factory.mktemp("demo")
    demo = library.content("demo")
    runs = planned(demo["methods"], name="demo", conditions=demo["conditions"])
    for number, run in enumerate(runs):
        idle = run.label in list(LEVELS)[:4]
        write_run(
            run,
            folder,
            class_means(LEVELS[run.label] + 0.002 * run.spec.seed, seed=number % 3),
            nmi=0.8 + 0.001 * number,
            dim=3840 if run.label == "untrained features" else 128,
            steps=0 if idle else 500,
            deviations=["steps 0 (500)"] if idle else ["lr of beta 0.925", "extra parameters 774"][: number % 3],
        )
    return gather("demo", runs, folder, METRICS)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[matplotlib.figure.Figure]:
    """The figures that would be saved, with everything at its place; pixels are not painted, which takes longest."""

    def save(figure: matplotlib.figure.Figure, file: IO[bytes] | Path, **how: object) -> None:
        figure.draw_without_rendering()
        Image.new("RGB", (1, 1)).save(file, "PNG")

    return _saved_by(monkeypatch, save)


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> list[matplotlib.figure.Figure]:
    """The figures that are saved."""
    return _saved_by(monkeypatch, matplotlib.figure.Figure.savefig)


def _saved_by(patch: pytest.MonkeyPatch, save: Callable[..., None]) -> list[matplotlib.figure.Figure]:
    found: list[matplotlib.figure.Figure] = []

    def saved(figure: matplotlib.figure.Figure, *where: object, **how: object) -> None:
        found.append(figure)
        save(figure, *where, **how)

    patch.setattr(matplotlib.figure.Figure, "savefig", saved)
    return found
