"""`monitor: test`: metrics of training and test classes during training (seidenschwarz2021, figure 7).

The scores are only recorded: neither the training loop nor the method sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from levelfield.embedder import Embedder
from levelfield.embedder.devices import searched_on
from levelfield.evaluation import evaluate
from levelfield.progress import Progress
from levelfield.randomness import numpy_stream
from levelfield.studies.runs.folder.items import Items, test_items
from levelfield.studies.runs.inputs import RunInputs

MOST = 5000  # training images to evaluate
MOST_OF_A_CLASS = 250  # so that the sample has at least 20 classes, if available


def watcher(
    inputs: RunInputs, embedder: Embedder, metric: str, progress: Progress
) -> Callable[[], dict[str, Any]] | None:
    """A function that evaluates the embedder in its current state; None without test classes.

    Rows come from the embedder alone, in evaluation mode and under the test view. `refine` is not applied, because the
    method would then see test images during training.
    """
    if not len(inputs.fold.test):
        return None
    labels = inputs.catalog.labels
    parts = {"train": inputs.fold.train[sample(inputs.train_labels)], "test": inputs.fold.test}

    def watch() -> dict[str, Any]:
        record: dict[str, Any] = {"metric": metric}
        for name, images in parts.items():
            rows = inputs.embed(embedder, images, progress, "monitoring")
            asked = test_items(inputs) if name == "test" else Items([""] * len(images), labels[images])
            arrays = asked.arrays(rows, labels[images])
            record[name] = float(evaluate(**searched_on(inputs.device, arrays), metrics=(metric,))[metric])
        return record

    return watch


def sample(labels: Sequence[int] | np.ndarray, *, most: int = MOST, of_a_class: int = MOST_OF_A_CLASS) -> np.ndarray:
    """Positions of at most `most` images: all, or classes in a fixed random order, each whole or its first images.

    >>> sample([0, 0, 1, 1], most=5).tolist(), len(sample([0, 0, 1, 1, 2, 2], most=5))
    ([0, 1, 2, 3], 4)
    """
    labels = np.asarray(labels)
    if len(labels) <= most:
        return np.arange(len(labels))
    chosen: list[np.ndarray] = []
    for label in numpy_stream(0, "monitor").permutation(np.unique(labels)):
        own = np.flatnonzero(labels == label)[: min(of_a_class, most)]
        if sum(map(len, chosen)) + len(own) > most:
            break
        chosen.append(own)
    return np.sort(np.concatenate(chosen))
