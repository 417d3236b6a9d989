"""Whether a batching fits an objective and the data, and statistics of its plans."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np

from levelfield.batch_layout import Layout
from levelfield.batching._base import Batching
from levelfield.batching._groups import Labels
from levelfield.batching._registry import create, names
from levelfield.errors import BadInput, BadSpecification, LevelfieldError


def fit_batch(labels: Labels, classes: int = 25, per_class: int = 4) -> Layout:
    """The largest layout up to classes x per_class in which at least half of the classes repeat no image.

    `labels`: labels of the training images.

    >>> print(fit_batch(np.repeat(np.arange(10), 8)).change)
    The batch is 10x4 instead of 25x4: there are 10 training classes.
    """
    _, sizes = np.unique(np.asarray(labels), return_counts=True)
    if len(sizes) < 2 or sizes.max() < 2:
        raise BadInput(
            f"There are {len(sizes)} training classes, the largest with {sizes.max(initial=0)} images; training "
            "needs at least two classes, one of them with two images."
        )
    reasons = [f"there are {len(sizes)} training classes"] if len(sizes) < classes else []
    usual = int(np.sort(sizes)[len(sizes) // 2])
    fitted = max(min(per_class, usual), min(per_class, 2))
    if fitted < per_class:
        reasons.append(f"a typical class has {usual} image{'s' if usual > 1 else ''}")
    count = min(classes, len(sizes))
    if count * fitted > sizes.sum():
        count = int(sizes.sum()) // fitted
        if count < 2:
            raise BadInput(f"{sizes.sum()} training images are too few for a batch of two classes.")
        reasons.append(f"there are {sizes.sum()} training images")
    change = f"The batch is {count}x{fitted} instead of {classes}x{per_class}: {', '.join(reasons)}." if reasons else ""
    return Layout(count, fitted, change)


class Fit(NamedTuple):
    """`by chance`: some batches may have no usable tuples; such steps are counted as idle."""

    verdict: Literal["yes", "by chance", "no"]
    reason: str = ""


def fits(batching: Batching, objective: Any) -> Fit:
    """Whether the batches meet the needs of `objective` (or its facts). A custom objective without facts always fits.

    >>> from levelfield.objectives import describe
    >>> fits(create("spc", [0, 0, 1, 1], batch_size=2, samples_per_class=1), describe("triplet"))
    Fit(verdict='no', reason='it needs 2 images of a class in a batch, but batches have at most 1')
    >>> fits(create("random", [0, 0, 1, 1, 2, 2], batch_size=3), describe("triplet")).verdict
    'by chance'
    """
    least: tuple[int, int] | None = getattr(getattr(objective, "facts", objective), "least", None)
    classes, together = least or (0, 0)
    promise = batching.promise()
    if promise.most < together:
        return Fit("no", f"it needs {together} images of a class in a batch, but batches have at most {promise.most}")
    if promise.most_classes is not None and promise.most_classes < classes:
        return Fit("no", f"it needs {classes} classes in a batch, but batches have at most {promise.most_classes}")
    if batching.batch_size < (least_images := classes + together - 1):
        return Fit("no", f"it needs {least_images} images in a batch, but batches have {batching.batch_size}")
    if promise.together < together:
        return Fit("by chance", f"a batch may lack {together} images of the same class")
    if promise.classes < classes:
        return Fit("by chance", f"a batch may have fewer than {classes} classes")
    return Fit("yes")


def check_fit(batching: Batching, objective: Any) -> None:
    """Refuse a batching that never meets the needs of the objective, and name batchings that do."""
    fit = fits(batching, objective)
    if fit.verdict == "no":
        suitable = []
        layout = {"batch_size": batching.batch_size, "batches_per_epoch": batching.batches}
        for other in names():
            with suppress(LevelfieldError):  # not possible for these labels or this size
                if fits(create(other, batching.labels, **layout), objective).verdict == "yes":
                    suitable.append(other)
        hint = f"These fit with their defaults: {', '.join(suitable)}" if suitable else "No batching of this size fits"
        who = getattr(getattr(objective, "facts", objective), "name", "") or type(objective).__name__
        name = batching.name or type(batching).__name__
        raise BadSpecification(f"Batching '{name}' does not fit the objective '{who}': {fit.reason}. {hint}.")


class PlanReport(NamedTuple):
    """Statistics of the plan of an epoch. Arrays are per batch."""

    classes: np.ndarray  # distinct classes
    repeats: np.ndarray  # entries that repeat an image of the batch
    max_per_class: np.ndarray  # entries of the most frequent class
    min_per_class: np.ndarray  # entries of the rarest class in the batch
    anchors_with_positive: np.ndarray  # entries with a different image of their class in the batch
    coverage: float  # distinct images / images
    max_uses: int  # of any image
    classes_seen: int

    def summary(self) -> dict[str, float]:
        facts = {name: float(fact.mean()) if np.ndim(fact) else fact for name, fact in self._asdict().items()}
        del facts["max_per_class"], facts["min_per_class"]
        return {"batches": len(self.classes), **facts}


def report(labels: Labels, plan: np.ndarray) -> PlanReport:
    """Statistics of `plan` [batches, size], positions in `labels`.

    >>> facts = report(np.array([0, 0, 1, 1]), np.array([[0, 1, 2, 2]]))
    >>> facts.classes.tolist(), facts.repeats.tolist(), facts.anchors_with_positive.tolist(), facts.coverage
    ([2], [1], [2], 0.75)
    """
    dense, plan = np.unique(labels, return_inverse=True)[1], np.asarray(plan, dtype=np.int64)
    count = int(dense.max()) + 1
    columns = []
    for batch in plan:
        entries = np.bincount(dense[batch], minlength=count)  # of each class
        images = np.bincount(dense[np.unique(batch)], minlength=count)
        present, positives = entries[entries > 0], entries[images > 1].sum()
        columns.append((len(present), len(batch) - images.sum(), present.max(), present.min(), positives))
    uses = np.bincount(plan.ravel(), minlength=len(dense))
    coverage = float(np.count_nonzero(uses) / len(dense))
    classes, repeats, most, fewest, positives = np.array(columns).T
    seen = len(np.unique(dense[plan]))
    return PlanReport(classes, repeats, most, fewest, positives, coverage, int(uses.max()), seen)
