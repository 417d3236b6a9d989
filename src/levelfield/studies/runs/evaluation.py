"""Evaluate the embeddings of a run: after training, for validation, and with `monitor: test`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.embedder import Embedder
from levelfield.embedder.devices import searched_on
from levelfield.evaluation import evaluate
from levelfield.files.writing import write_whole
from levelfield.methods import Method
from levelfield.progress import Progress
from levelfield.randomness import numpy_stream
from levelfield.studies.runs.folder.files import PER_QUERY, read_embeddings, read_training, write_finished
from levelfield.studies.runs.folder.items import Items, test_items
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.inputs import RunInputs

MAX_MONITORED_IMAGES = 5000  # training images that `monitor` evaluates
MOST_OF_A_CLASS = 250  # so that the sample has at least 20 classes, if available


def score_run(
    folder: Path, labels: np.ndarray | None, metrics: tuple[str, ...], progress: Progress, device: str = "cpu"
) -> None:
    """Write per_query.npz and metrics.json, which finishes a run, from its stored embeddings. Earlier metrics are kept.
    labels: the class of each test image; None without test images."""
    trained, before = read_training(folder), read_result(folder)
    metrics = tuple(dict.fromkeys([*(before.values if before else ()), *metrics]))
    values: dict[str, float] = {}
    signatures: dict[str, Any] = {}
    if labels is not None:
        stage = progress.stage("measuring", 1)
        items, measured = Items.read(folder), trained["measured"]
        result = evaluate(**searched_on(device, items.arrays(read_embeddings(folder), labels)), metrics=metrics)
        values = {name: float(result[name]) for name in result}
        shown = {
            "refined": measured.get("refined") or "none",
            "ensemble": measured.get("members", 1),
            "bits": measured.get("bits", 32),
        }
        signatures = {name: asdict(result.signature(name).declared(**shown)) for name in result}
        arrays: dict[str, Any] = {**result.per_query, "lone": result.lone, "labels": labels[items.queries]}
        arrays |= {} if items.roles is None else {"all_labels": labels}
        write_whole(folder / PER_QUERY, lambda file: np.savez(file, **arrays))
        stage.advance()
    write_finished(folder, {"values": values, "signatures": signatures, **trained})


def validation(
    inputs: RunInputs, method: Method, embedder: Embedder, metric: str, progress: Progress
) -> Callable[[], float]:
    """A function that scores the embedder in its current state on the validation classes."""
    labels = inputs.catalog.labels[inputs.fold.validation]

    def validate() -> float:
        embedder.eval()
        rows = method.refine(inputs.embed(embedder, inputs.fold.validation, progress))
        return _score(inputs, {"embeddings": rows, "labels": labels}, metric)

    return validate


def monitor(
    inputs: RunInputs, embedder: Embedder, metric: str, progress: Progress
) -> Callable[[], dict[str, Any]] | None:
    """A function that scores the embedder in its current state on training and test classes (seidenschwarz2021,
    figure 7); None without test classes. The scores are only recorded: neither the loop nor the method sees them, and
    the method does not refine the rows, since it would then see test images during training."""
    if not len(inputs.fold.test):
        return None
    labels, train = inputs.catalog.labels, inputs.fold.train[sample(inputs.train_labels)]
    parts = {"train": (train, Items([""] * len(train), labels[train])), "test": (inputs.fold.test, test_items(inputs))}

    def watch() -> dict[str, Any]:
        record: dict[str, Any] = {"metric": metric}
        for name, (images, items) in parts.items():
            rows = inputs.embed(embedder, images, progress, "monitoring")
            record[name] = _score(inputs, items.arrays(rows, labels[images]), metric)
        return record

    return watch


def _score(inputs: RunInputs, arrays: dict[str, Any], metric: str) -> float:
    return float(evaluate(**searched_on(inputs.device, arrays), metrics=(metric,))[metric])


def sample(
    labels: Sequence[int] | np.ndarray, *, most: int = MAX_MONITORED_IMAGES, of_a_class: int = MOST_OF_A_CLASS
) -> np.ndarray:
    """Positions of at most `most` images: all, or classes in a fixed random order, each whole or its first images.

    >>> sample([0, 0, 1, 1], most=5).tolist(), len(sample([0, 0, 1, 1, 2, 2], most=5))
    ([0, 1, 2, 3], 4)
    """
    labels = np.asarray(labels)
    if len(labels) <= most:
        return np.arange(len(labels))
    positions: list[int] = []
    for label in numpy_stream(0, "monitor").permutation(np.unique(labels)):
        members = np.flatnonzero(labels == label)[: min(of_a_class, most)]
        if len(positions) + len(members) > most:
            break
        positions.extend(members)
    return np.sort(positions)
