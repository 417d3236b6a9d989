"""Statistics of a plan: repeats, positives, coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PlanReport:
    """Arrays are per batch; the other three are per epoch."""

    classes: np.ndarray  # distinct classes
    repeats: np.ndarray  # entries that repeat an image of the batch
    max_per_class: np.ndarray  # entries of the most frequent class
    min_per_class: np.ndarray  # entries of the rarest class in the batch
    anchors_with_positive: np.ndarray  # entries with a different image of their class in the batch
    coverage: float  # distinct images / images
    max_uses: int  # of any image
    classes_seen: int

    def summary(self) -> dict[str, float]:
        """Summary of the epoch: means over batches, and epoch totals."""
        return {
            "batches": len(self.classes),
            "classes": float(self.classes.mean()),
            "repeats": float(self.repeats.mean()),
            "anchors_with_positive": float(self.anchors_with_positive.mean()),
            "coverage": self.coverage,
            "max_uses": self.max_uses,
            "classes_seen": self.classes_seen,
        }


def report(labels: np.ndarray, plan: np.ndarray) -> PlanReport:
    """Statistics of `plan` [batches, size], positions in `labels`.

    >>> facts = report(np.array([0, 0, 1, 1]), np.array([[0, 1, 2, 2]]))
    >>> facts.classes.tolist(), facts.repeats.tolist(), facts.anchors_with_positive.tolist(), facts.coverage
    ([2], [1], [2], 0.75)
    """
    labels, plan = np.asarray(labels), np.asarray(plan, dtype=np.int64)
    dense = np.unique(labels, return_inverse=True)[1]
    uses = np.bincount(plan.ravel(), minlength=len(labels))
    batch, places, images = _classes_of_batches(dense[plan], plan)
    first = np.flatnonzero(np.r_[True, np.diff(batch) != 0])  # where a batch begins
    return PlanReport(
        classes=np.add.reduceat(np.ones_like(places), first),
        repeats=plan.shape[1] - np.add.reduceat(images, first),
        max_per_class=np.maximum.reduceat(places, first),
        min_per_class=np.minimum.reduceat(places, first),
        anchors_with_positive=np.add.reduceat(np.where(images > 1, places, 0), first),
        coverage=float(np.count_nonzero(uses) / len(labels)),
        max_uses=int(uses.max()),
        classes_seen=len(np.unique(dense[plan])),
    )


def _classes_of_batches(classes: np.ndarray, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each class in each batch: index of the batch, number of entries, number of distinct images."""
    batch = np.repeat(np.arange(len(plan)), plan.shape[1])
    order = np.lexsort((plan.ravel(), classes.ravel(), batch))
    batch, label, image = batch[order], classes.ravel()[order], plan.ravel()[order]
    new_class = np.r_[True, (np.diff(batch) != 0) | (np.diff(label) != 0)]
    new_image = new_class | np.r_[True, np.diff(image) != 0]
    begin = np.flatnonzero(new_class)
    return batch[begin], np.diff(np.r_[begin, len(batch)]), np.add.reduceat(new_image.astype(np.int64), begin)
