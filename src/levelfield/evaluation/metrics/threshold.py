"""Same or not: the similarity from which on two images count as the same, and how often that goes wrong.

The threshold is chosen on validation classes and judged on test classes: on the classes that chose it, it looks better
than it is. Pairs share images and images share classes, so every interval is over classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelfield.errors import BadInput, unknown
from levelfield.evaluation.class_intervals import check_level
from levelfield.evaluation.inputs import Array, Arrays, class_names, finite_rows
from levelfield.evaluation.metrics.error_rates import ByClass, Curve, Rates, Rule
from levelfield.evaluation.metrics.pair_histogram import Counts, PairSet, count_pairs, pair_set
from levelfield.evaluation.search.distances import DISTANCES, unit_rows
from levelfield.progress import SILENT, Progress

_SAMPLE = 4096  # rows that tell where the threshold will be


@dataclass(frozen=True)
class Threshold:
    """From `value` on two images count as the same: a cosine or inner product at least that large, a distance or number
    of different bits at most that large. `interval`: what other validation classes of the kind could choose (NaN below
    5 classes with two images or more)."""

    value: float
    interval: tuple[float, float]
    level: float
    rule: str
    distance: str
    dim: int
    validation: Rates
    columns: int = field(repr=False)  # of the embeddings, before only the first `dim` were taken
    similarity: float = field(repr=False)  # the same as a number that is larger for nearer rows
    classes: Array = field(repr=False)

    @property
    def signature(self) -> str:
        """How the threshold was made."""
        chosen = self.validation
        return (
            f"same_or_not|rule:{self.rule}|dist:{self.distance}|dim:{self.dim}|images:{chosen.images}"
            f"|classes:{chosen.classes}|v:1"
        )

    def same(self, first: Any, second: Any) -> Array:
        """Whether row i of `first` and row i of `second` are the same; a single row is compared with all others.

        >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> same_or_not(rows, ["a", "a", "b", "b"], ci=None).same([[1.0, 0.2]], [[1.0, 0.1], [0.2, 1.0]])
        array([ True, False])
        """
        one, other = (self._rows(rows, name) for rows, name in ((first, "first"), (second, "second")))
        if self.distance == "cosine":
            one, other = unit_rows(one), unit_rows(other)
        if self.distance in ("cosine", "dot"):
            result: Array = (one * other).sum(axis=1) >= self.similarity
        elif self.distance == "hamming":
            result = ((one > 0) != (other > 0)).sum(axis=1) <= self.value
        else:
            result = -0.5 * np.square(one - other).sum(axis=1) >= self.similarity
        return result

    def _rows(self, rows: Any, name: str) -> Array:
        """Of one embedding or several, in float64."""
        several = rows if np.ndim(rows) > 1 else rows[None] if hasattr(rows, "ndim") else [rows]
        found = finite_rows(several, name, None)
        self._check_columns(found.shape[1], name)
        return found[:, : self.dim].astype(np.float64)

    def _check_columns(self, columns: int, name: str) -> None:
        if columns != self.columns:
            raise BadInput(
                f"{name} has {columns} columns, but the threshold was chosen on embeddings with {self.columns}; "
                "both need the same number."
            )

    def rates(
        self,
        embeddings: Any,
        labels: Any,
        *,
        ci: float | None = 0.95,
        progress: Progress = SILENT,
    ) -> Rates:
        """How often the threshold is wrong on all pairs of a test set, whose classes must not have chosen it."""
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        rows, codes, classes = _read(embeddings, labels, "test", self.dim)
        _refuse_common(self.classes, classes)
        if ci is not None:
            check_level(ci)
        pairs = pair_set(rows, codes, distance=self.distance, what="test embeddings")
        edge = np.array([self.similarity / pairs.scale**2])
        return ByClass(pairs, count_pairs(pairs, edge, fine=False, progress=progress)).rates(ci)


def same_or_not(
    validation_embeddings: Arrays,
    validation_labels: Arrays,
    *,
    distance: str = "cosine",
    rule: str | Mapping[str, float] = "equal_error",
    dim: int | None = None,
    ci: float | None = 0.95,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Threshold:
    """The threshold for "same or not" of all pairs of validation images: embeddings (n, dim), labels (n,).

    rule: `equal_error` (as many of the different pairs are taken for the same as of the same ones for different),
    `balanced` (the mean of both rates is smallest), or `{"false_match": 0.01}` (at most that rate of false matches, and
    as few false non-matches as that allows). Where several thresholds make the same decisions, it is the middle one.

    The threshold is one of some 200,000 evenly spaced values (cosine: steps of 2^-17; Hamming: every number of
    bits), its rates are exact counts over all pairs. seed: of the sample that tells where to look. Costs half of the
    n x n product. Memory: a sorted copy of the embeddings, about 100 MB for any n, and 1 KB for each class.

    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> found = same_or_not(rows, ["a", "a", "b", "b"], ci=None)
    >>> round(found.value, 2), found.validation.false_match.errors, found.validation.false_non_match.errors
    (0.61, 0, 0)
    """
    wanted = Rule.of(rule)
    if ci is not None:
        check_level(ci)
    if distance not in DISTANCES:
        raise unknown("distance", distance, DISTANCES)
    rows, codes, classes = _read(validation_embeddings, validation_labels, "validation", dim)
    pairs = pair_set(rows, codes, distance=distance, what="validation embeddings")
    curve, counts, numbers = _counted(pairs, wanted, seed, progress)
    chosen = curve.choose(wanted)
    low = high = math.nan
    if ci is not None:
        at = min(int(np.searchsorted(numbers, chosen)), len(numbers) - 1)
        ends = ByClass(pairs, counts).interval(wanted, pairs.grid.edges(numbers), at, ci)
        low, high = sorted(_in_units(bound, distance, pairs.scale) for bound in ends)
    edge = float(pairs.grid.edges(np.array(chosen)))
    return Threshold(
        _in_units(edge, distance, pairs.scale),
        (low, high),
        ci or math.nan,
        str(wanted),
        distance,
        rows.shape[1],
        curve.rates(chosen),
        np.shape(validation_embeddings)[1],
        edge * pairs.scale**2,
        classes,
    )


def _counted(
    pairs: PairSet,
    rule: Rule,
    seed: int,
    progress: Progress,
) -> tuple[Curve, Counts, Array]:
    """One pass over all pairs that looks closely at those near the threshold only; a sample tells where that is.

    Returns the exact curve there, counts by class, and the numbers of the edges they were counted at.
    """
    sample = pairs.sample(_SAMPLE, seed=seed)
    guess = Curve(sample, count_pairs(sample, pairs.grid.edges(np.zeros(1))), 0)
    numbers = guess.around(guess.choose(rule))
    counts = count_pairs(pairs, pairs.grid.edges(numbers), progress=progress)
    curve = Curve(pairs, counts, int(numbers[0]))
    if not numbers[0] or not curve.starts_at(curve.choose(rule)):
        return curve, counts, numbers
    numbers = np.insert(numbers, 0, 0)  # the sample was misleading: look at all pairs
    counts = count_pairs(pairs, pairs.grid.edges(numbers), progress=progress)
    return Curve(pairs, counts, 0), counts, numbers


def _read(embeddings: Any, labels: Any, who: str, dim: int | None) -> tuple[Array, Array, Array]:
    """(rows, codes, classes) of a set, refused by its name if it cannot be used."""
    rows = finite_rows(embeddings, f"{who} embeddings", dim)
    names = class_names(labels, f"{who} labels", len(rows), f"{who} embeddings")
    classes, codes = np.unique(names, return_inverse=True)
    return rows, codes, classes


def _in_units(similarity: float, distance: str, scale: float) -> float:
    """What people call it: the cosine, the inner product, the distance, the number of different bits."""
    if distance == "euclidean":
        return math.sqrt(max(-2 * similarity, 0.0)) * scale
    if distance == "hamming":
        return -2 * similarity
    return similarity * scale**2


def _refuse_common(validation: Array, test: Array) -> None:
    if (validation.dtype.kind == "U") != (test.dtype.kind == "U"):
        raise BadInput("Validation and test labels must both be numbers or both be text.")
    common = np.intersect1d(validation, test)
    if len(common):
        shown = ", ".join(map(str, common[:3])) + (", ..." if len(common) > 3 else "")
        raise BadInput(
            f"{len(common)} of {len(test)} test classes were also used to choose the threshold ({shown}), so the "
            "error rates would be too optimistic. Use different labels for different classes."
        )
