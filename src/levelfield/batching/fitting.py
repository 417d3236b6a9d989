"""Check whether a batching fits an objective: guarantees of the batches against needs of the objective."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from levelfield.batching._registry import create, names
from levelfield.batching.base import Batching
from levelfield.errors import BadSpecification, LevelfieldError


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
    if least is None:
        return Fit("yes")
    classes, together = least
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
    found = fits(batching, objective)
    if found.verdict == "no":
        who = getattr(getattr(objective, "facts", objective), "name", "") or type(objective).__name__
        others = fitting(batching, objective)
        hint = f" These fit with their defaults: {', '.join(others)}." if others else " No batching of this size fits."
        raise BadSpecification(
            f"Batching '{batching.name or type(batching).__name__}' does not fit the objective "
            f"'{who}': {found.reason}.{hint}"
        )


def fitting(batching: Batching, objective: Any) -> list[str]:
    """Names of the batchings that always fit, for the same labels and batch size."""
    found = []
    for name in names():
        try:
            other = create(name, batching.labels, batch_size=batching.batch_size, batches_per_epoch=batching.batches)
        except LevelfieldError:  # not possible for these labels or this size
            continue
        if fits(other, objective).verdict == "yes":
            found.append(name)
    return found
