"""What a plan really does: repeats, positives, coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PlanReport:
    """Arrays are per batch; the other three are per epoch."""

    classes: np.ndarray  # distinct classes
    repeats: np.ndarray  # places that hold an image already in the batch
    anchors_with_positive: np.ndarray  # places for which another place holds a different image of the class
    coverage: float  # distinct images / images
    max_uses: int  # of any image
    classes_seen: int


def report(labels: np.ndarray, plan: np.ndarray) -> PlanReport:
    """The facts about `plan` [batches, size] of positions into `labels`.

    >>> facts = report(np.array([0, 0, 1, 1]), np.array([[0, 1, 2, 2]]))
    >>> facts.classes.tolist(), facts.repeats.tolist(), facts.anchors_with_positive.tolist(), facts.coverage
    ([2], [1], [2], 0.75)
    """
    labels, plan = np.asarray(labels), np.asarray(plan, dtype=np.int64)
    dense = np.unique(labels, return_inverse=True)[1]
    uses = np.bincount(plan.ravel(), minlength=len(labels))
    return PlanReport(
        classes=_distinct(dense[plan]),
        repeats=plan.shape[1] - _distinct(plan),
        anchors_with_positive=_with_positive(dense[plan], plan),
        coverage=float(np.count_nonzero(uses) / len(labels)),
        max_uses=int(uses.max()),
        classes_seen=len(np.unique(dense[plan])),
    )


def _distinct(rows: np.ndarray) -> np.ndarray:
    return 1 + np.count_nonzero(np.diff(np.sort(rows, axis=1), axis=1), axis=1)


def _with_positive(classes: np.ndarray, plan: np.ndarray) -> np.ndarray:
    """A class is counted if it has two distinct images in the batch: then every one of its places has a positive."""
    batches, size = plan.shape
    batch = np.repeat(np.arange(batches), size)
    order = np.lexsort((plan.ravel(), classes.ravel(), batch))
    b, c, p = batch[order], classes.ravel()[order], plan.ravel()[order]
    new_class = np.r_[True, (np.diff(b) != 0) | (np.diff(c) != 0)]
    new_image = new_class | np.r_[True, np.diff(p) != 0]
    run = np.cumsum(new_class) - 1
    places, images = np.bincount(run), np.bincount(run, weights=new_image)
    return np.bincount(b[new_class], weights=np.where(images > 1, places, 0), minlength=batches).astype(np.int64)
