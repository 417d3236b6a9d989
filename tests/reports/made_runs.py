"""Hand-written run folders with known scores."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from levelfield.evaluation.signature import Definition, Representation, Signature
from levelfield.reports.figures import draw_figures
from levelfield.studies.leaderboard.board import Leaderboard, gather
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.folder.files import FINISHED, write_finished, write_spectra, write_training
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import claim
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import parse_study

CLASSES, EACH = 40, 5
METRICS = ("recall@1", "map@r", "nmi")
LABELS = np.repeat(np.arange(CLASSES), EACH)
Figures = list[Figure]


def planned(methods: Sequence[Any], *, seeds: Any = 3, **content: Any) -> list[PlannedRun]:
    study = {"name": "made", "data": "emoji", "methods": list(methods), "seeds": seeds, **content}
    return plan(parse_study(study), digest=lambda data: data.name)


def write_run(
    run: PlannedRun,
    study_folder: Path,
    per_class: np.ndarray,
    *,
    nmi: float = 0.5,
    lone: Sequence[int] = (),
    dim: int = 128,
    definition: Mapping[str, Any] | None = None,
    deviations: Sequence[str] = (),
    steps: int = 10,
    seconds: float = 2.5,
    **summary: Any,
) -> Path:
    """A finished run: `per_class` is recall@1 of each class's queries; map@r is half of it."""
    folder = run.folder(study_folder)
    claim(folder, run.spec, {})
    queries = np.repeat(per_class, EACH).astype(np.float64)
    alone = np.isin(np.arange(len(LABELS)), lone)
    arrays = {"recall@1": queries, "map@r": queries / 2, "lone": alone, "labels": LABELS}
    np.savez(folder / "per_query.npz", **arrays)
    counts = {"queries": len(LABELS), "gallery": len(LABELS)}
    how = {"self_excluded": "id", "ties": "expected", "lone": "exclude", "average": "query", "distance": "cosine"}
    definitions = [Definition(**{"metric": metric, **how, **counts, **(definition or {})}) for metric in METRICS]
    signatures = {each.metric: asdict(Signature(each, Representation(dim=dim))) for each in definitions}
    values = {"recall@1": queries[~alone].mean(), "map@r": queries[~alone].mean() / 2, "nmi": nmi}
    summary = {"seconds": seconds, "step": steps, "collapsed": False, "idle_batches": 0, **summary}
    entries = [{"what": text, "condition": None, "method": None, "text": text} for text in deviations]
    content = {"values": values, "signatures": signatures, "summary": summary, "measured": {}, "deviations": entries}
    write_finished(folder, content)
    return folder


def class_means(level: float, *, seed: int = 0, spread: float = 0.2) -> np.ndarray:
    """Means of the classes around `level`; the same seed gives the same hard and easy classes, up to a little that
    is each level's own: a difference that is the same in all classes would be no evidence."""
    noise = np.random.default_rng(seed).uniform(-spread, spread, size=CLASSES)
    own = np.random.default_rng([seed, round(1e4 * level)]).uniform(-0.02, 0.02, size=CLASSES)
    return np.clip(level + noise - noise.mean() + own - own.mean(), 0, 1)


def change_metrics(folder: Path, **content: Any) -> None:
    write_finished(folder, {**json.loads((folder / FINISHED).read_text()), **content})


def embed(
    folder: Path, rows: np.ndarray, classes: Sequence[str], paths: Sequence[str] = (), roles: np.ndarray | None = None
) -> None:
    """Test embeddings of a written run. Without paths its images are missing."""
    np.save(folder / "embeddings.npy", rows.astype(np.float32))
    Items([*paths] or [f"image{k}.png" for k in range(len(rows))], np.array(classes), roles).write(folder)
    summary = json.loads((folder / FINISHED).read_text())["summary"]
    write_training(folder, {"summary": summary, "deviations": [], "measured": {"dim": rows.shape[1]}})


def board_of(
    folder: Path, levels: Mapping[str, float], metrics: tuple[str, ...] = METRICS, seeds: int = 2
) -> Leaderboard:
    """The leaderboard of methods with these scores."""
    runs = planned(list(levels), seeds=seeds)
    for run in runs:
        steps = 0 if run.label in ("lda", "untrained") else 5
        write_run(run, folder, class_means(levels[run.label], seed=run.spec.seed), steps=steps)
    return gathered(runs, folder, metrics)


LEVELS = {"lda": 0.50, "margin": 0.60, "triplet": 0.58, "contrastive": 0.45}
SECONDS = {"margin": 9.0, "triplet": 4.0, "contrastive": 2.0}


def trained_board(runs: list[PlannedRun], folder: Path, *, untrained: tuple[str, ...] = ("lda",)) -> Leaderboard:
    """Every run is a little better and more compressed than the one before."""
    for number, run in enumerate(runs):
        trains = run.label not in untrained
        summary = {"rho_train": 0.1 * (number + 1), "monitored": watched(run.spec.seed)} if trains else {}
        place = write_run(run, folder, class_means(0.4 + 0.02 * number), steps=5 if trains else 0, **summary)
        test = np.random.default_rng(number).normal(size=(CLASSES, 8))[LABELS]
        embed(place, test + np.random.default_rng(1).normal(size=test.shape), [f"class {k}" for k in LABELS])
        if trains:
            rows = np.random.default_rng(number).normal(size=(30, 8)) * np.exp(-np.arange(8) * 0.2 * number)
            write_spectra(place, rows, np.arange(30) % 5)
    return gathered(runs, folder)


def draw_study(name: str, folder: Path, methods: Sequence[Any], **content: Any) -> Leaderboard:
    """Draw a figure of a study of written runs."""
    runs = planned(methods, **content)
    board = trained_board(runs, folder)
    draw_figures([name], board, runs, folder)
    return board


def gathered(runs: list[PlannedRun], folder: Path, metrics: tuple[str, ...] = METRICS) -> Leaderboard:
    """The leaderboard of written runs, quickly."""
    return gather("made", runs, folder, metrics)


def printed(show: Callable[..., object], *shown: object, width: int = 80, **settings: object) -> str:
    """What `show(*shown, console)` prints on a console of this width."""
    console = Console(width=width, file=io.StringIO(), color_system=None, highlight=False)
    show(*shown, console, **settings)
    return console.file.getvalue()


def watched(seed: int, steps: tuple[int, ...] = (0, 5, 10)) -> list[dict[str, Any]]:
    """As `monitor: test` writes it."""
    return [
        {"step": step, "metric": "recall@1", "train": 0.5 + 0.04 * step, "test": 0.5 + 0.01 * (step + seed)}
        for step in steps
    ]
