"""Similarity threshold for "same class", and its error rates.

The threshold is chosen on validation classes and measured on test classes; error rates on the validation classes would
be too optimistic. Pairs share images and images share classes, so every interval is over classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelfield.errors import BadInput, unknown
from levelfield.evaluation.inputs import Array, Arrays, class_names, finite_rows
from levelfield.evaluation.metrics.error_rates import ByClass, Curve, Rates, Rule
from levelfield.evaluation.metrics.pair_histogram import Counts, PairSet, count_pairs, pair_set
from levelfield.evaluation.metrics.unknowns import Unknowns, unknowns
from levelfield.evaluation.search.distances import DISTANCES, unit_rows
from levelfield.evaluation.statistics.intervals import check_level
from levelfield.progress import SILENT, Progress

_SAMPLE = 4096  # rows used to locate the threshold roughly


@dataclass(frozen=True)
class Threshold:
    """Two images count as the same class if their cosine or inner product is at least `value`, or their distance or
    number of different bits at most `value`. `interval`: range over other validation classes of the same kind (NaN
    below 5 classes with two images or more)."""

    value: float
    interval: tuple[float, float]
    level: float
    rule: str
    distance: str
    dim: int
    validation: Rates
    columns: int = field(repr=False)  # of the embeddings, before truncation to `dim`
    similarity: float = field(repr=False)  # the threshold as a similarity (larger is nearer)
    classes: Array = field(repr=False)

    @property
    def signature(self) -> str:
        """Definition of the threshold."""
        chosen = self.validation
        return (
            f"same_or_not|rule:{self.rule}|dist:{self.distance}|dim:{self.dim}|images:{chosen.images}"
            f"|classes:{chosen.classes}|v:1"
        )

    def same(self, first: Any, second: Any) -> Array:
        """Whether row i of `first` and row i of `second` are of the same class; a single row is compared with all rows.

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
        """Validated rows of one embedding or several, in float64."""
        several = rows if np.ndim(rows) > 1 else rows[None] if hasattr(rows, "ndim") else [rows]
        checked = finite_rows(several, name, None)
        self._check_columns(checked.shape[1], name)
        return checked[:, : self.dim].astype(np.float64)

    def _check_columns(self, columns: int, name: str) -> None:
        if columns != self.columns:
            raise BadInput(
                f"{name} has {columns} columns, but the threshold was chosen on embeddings with {self.columns}; "
                "both need the same number."
            )

    def rates(self, embeddings: Any, labels: Any, *, ci: float | None = 0.95, progress: Progress = SILENT) -> Rates:
        """Error rates on all pairs of a test set, whose classes must differ from the validation classes."""
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        rows, codes, classes = _read(embeddings, labels, "test", self.dim)
        _refuse_common(self.classes, classes)
        if ci is not None:
            check_level(ci)
        pairs = pair_set(rows, codes, distance=self.distance, what="test embeddings")
        edge = np.array([self.similarity / pairs.scale**2])
        return ByClass(pairs, count_pairs(pairs, edge, fine=False, progress=progress)).rates(ci)

    def unknowns(
        self,
        embeddings: Any,
        labels: Any,
        *,
        gallery: Any = None,
        gallery_labels: Any = None,
        ci: float | None = 0.95,
        progress: Progress = SILENT,
    ) -> Unknowns:
        """How many images of a test set are matched although their class is not in the gallery: each is searched
        without its own class. The test classes must differ from the validation classes. See `unknowns`."""
        self._check_columns(np.shape(embeddings)[-1], "test embeddings")
        _refuse_common(self.classes, np.unique(class_names(labels, "test labels", len(embeddings), "test embeddings")))
        return unknowns(
            embeddings,
            labels,
            threshold=self.value,
            gallery=gallery,
            gallery_labels=gallery_labels,
            distance=self.distance,
            dim=self.dim,
            ci=ci,
            progress=progress,
        )


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
    """Choose a threshold for "same class" on all pairs of validation images: embeddings (n, dim), labels (n,).

    rule: `equal_error` (equal rates of false matches and false non-matches), `balanced` (smallest mean of both rates),
    or `{"false_match": 0.01}` (at most that rate of false matches, with the fewest false non-matches). If several
    thresholds make the same decisions, the middle one is chosen.

    The threshold is one of some 200,000 evenly spaced values (cosine: steps of 2^-17; Hamming: every number of bits),
    its rates are exact counts over all pairs. seed: seed of the sample that locates the threshold. Costs half of the n
    x n product. Memory: a sorted copy of the embeddings, about 100 MB for any n, and 1 KB per class.

    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> threshold = same_or_not(rows, ["a", "a", "b", "b"], ci=None)
    >>> round(threshold.value, 2), threshold.validation.false_match.errors, threshold.validation.false_non_match.errors
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


def _counted(pairs: PairSet, rule: Rule, seed: int, progress: Progress) -> tuple[Curve, Counts, Array]:
    """Count all pairs in one pass, in detail only near the threshold, which a sample locates.

    Returns the exact curve near the threshold, counts by class, and the indices of their edges.
    """
    sample = pairs.sample(_SAMPLE, seed=seed)
    guess = Curve(sample, count_pairs(sample, pairs.grid.edges(np.zeros(1))), 0)
    numbers = guess.around(guess.choose(rule))
    counts = count_pairs(pairs, pairs.grid.edges(numbers), progress=progress)
    curve = Curve(pairs, counts, int(numbers[0]))
    if not numbers[0] or not curve.starts_at(curve.choose(rule)):
        return curve, counts, numbers
    numbers = np.insert(numbers, 0, 0)  # the sample was misleading: count all pairs in detail
    counts = count_pairs(pairs, pairs.grid.edges(numbers), progress=progress)
    return Curve(pairs, counts, 0), counts, numbers


def _read(embeddings: Any, labels: Any, who: str, dim: int | None) -> tuple[Array, Array, Array]:
    """Validate a set; return (rows, codes, classes). Errors name the set."""
    rows = finite_rows(embeddings, f"{who} embeddings", dim)
    names = class_names(labels, f"{who} labels", len(rows), f"{who} embeddings")
    classes, codes = np.unique(names, return_inverse=True)
    return rows, codes, classes


def _in_units(similarity: float, distance: str, scale: float) -> float:
    """Convert a similarity to the usual unit: cosine, inner product, distance or number of different bits."""
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
