"""Number of seeds or test classes needed to resolve a tie with 80 % power."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from levelfield.evaluation.statistics.crossed import Differences, Floats, degrees_of_freedom

POWER = 0.8
MOST_SEEDS, MOST_CLASSES = 1000, 100_000  # larger numbers are not practical
_ROUNDS = 8  # iterations: the number and the degrees of freedom depend on each other
Numbers = tuple[str, "Needed | None", "Needed | None"]


@dataclass(frozen=True)
class Needed:
    """Total number needed for the observed difference, and for the ends of its 95 % interval (None: unbounded).

    >>> Needed(12, 5, None).text("seeds")
    '12 seeds (95 %: 5 or more)'
    >>> Needed(12, 5, 90).text("seeds")
    '12 seeds (95 %: 5 to 90)'
    """

    number: int
    low: int
    high: int | None

    def text(self, what: str) -> str:
        span = f"{self.low:,} or more" if self.high is None else f"{self.low:,} to {self.high:,}"
        return f"{self.number:,} {what} (95 %: {span})"


@dataclass(frozen=True)
class Design:
    """Variances of differences as functions of the size of the study; one entry per pair.

    by_classes, by_seeds, mixed: the parts reduced by more classes, by more seeds, and by either.
    """

    by_classes: Floats
    by_seeds: Floats
    mixed: Floats
    classes: Floats
    seeds: Floats
    classes_freedom: Floats
    seeds_freedom: Floats
    alpha: Floats

    def asked(self, difference: Floats, more_classes: Floats, more_seeds: Floats) -> Floats:
        """The variance at which a test of the larger study would detect `difference` with the required power."""
        from scipy.special import ndtri, stdtrit

        of_classes = self.by_classes / more_classes + self.mixed / (more_classes * more_seeds)
        of_seeds = (self.by_seeds + self.mixed / more_classes) / more_seeds
        total = self.by_classes / more_classes + of_seeds
        classes_freedom = self.classes_freedom * (self.classes * more_classes - 1) / (self.classes - 1)
        grown = np.where(self.seeds > 1, (self.seeds * more_seeds - 1) / np.maximum(self.seeds - 1, 1), 1.0)
        seeds_freedom = self.seeds_freedom * grown
        doubt = of_classes**2 / classes_freedom + of_seeds**2 / seeds_freedom
        df = np.clip(total**2 / doubt, np.minimum(classes_freedom, seeds_freedom), classes_freedom)
        careful = degrees_of_freedom(of_classes, classes_freedom, of_seeds, seeds_freedom)  # as in the test
        critical = stdtrit(careful, 1 - self.alpha / 2)
        # normal approximation of the noncentral t (Johnson and Kotz), accurate enough here
        centre = critical * (1 - 1 / (4 * df)) + ndtri(POWER) * np.sqrt(1 + critical**2 / (2 * df))
        asked: Floats = (difference / centre) ** 2
        return asked

    def more_seeds(self, difference: Floats) -> Floats:
        """Factor by which seeds must grow; infinite if the variance over classes alone is too large."""
        return self._solved(difference, self.seeds_for, seeds=True)

    def more_classes(self, difference: Floats) -> Floats:
        return self._solved(difference, self.classes_for, classes=True)

    def more_of_both(self, difference: Floats) -> Floats:
        return self._solved(difference, self.both_for, seeds=True, classes=True)

    def seeds_for(self, variance: Floats) -> Floats:
        """Factor of seeds that gives this variance; `classes_for` and `both_for` likewise."""
        return _ratio(self.by_seeds + self.mixed, variance - self.by_classes)

    def classes_for(self, variance: Floats) -> Floats:
        return _ratio(self.by_classes + self.mixed, variance - self.by_seeds)

    def both_for(self, variance: Floats) -> Floats:
        both = self.by_classes + self.by_seeds
        return _ratio(both + np.sqrt(both**2 + 4 * variance * self.mixed), 2 * variance)

    def most_asked(self, difference: Floats) -> Floats:
        """More than `asked` of any larger study: as if variances were known. Infinite where that is not sure."""
        from scipy.special import ndtri

        sure = np.minimum(self.classes_freedom, self.seeds_freedom) >= 1  # below, the normal is no approximation
        asked: Floats = np.where(sure, (difference / (ndtri(1 - self.alpha / 2) + ndtri(POWER))) ** 2, np.inf)
        return asked * (1 + 1e-9)

    def _solved(
        self, difference: Floats, solve: Callable[[Floats], Floats], *, seeds: bool = False, classes: bool = False
    ) -> Floats:
        factor = np.ones_like(difference)
        one = np.ones_like(difference)
        for _ in range(_ROUNDS):
            tried = np.minimum(factor, 1e6)
            asked = self.asked(difference, tried if classes else one, tried if seeds else one)
            factor = np.sqrt(tried * np.maximum(solve(asked), 1e-3))  # half a log step, against oscillation
        tried = np.minimum(factor, 1e6)
        final: Floats = np.maximum(
            solve(self.asked(difference, tried if classes else one, tried if seeds else one)), 1e-3
        )
        return final


def needed(pairs: Differences, half: Floats, alpha: Floats, ties: np.ndarray) -> list[Numbers]:
    """For every tie, the missing factor and the number needed; empty for pairs that are not ties or have no difference.

    half: half the width of the difference's interval. alpha: the level of each pair after correction.
    """
    result: list[Numbers] = [("", None, None)] * len(pairs.difference)
    at = np.flatnonzero(ties & (pairs.difference != 0) & (pairs.variance.classes > 0))
    if not len(at) or pairs.classes < 2:
        return result
    seeds = pairs.fewest[at]
    part = pairs.variance
    mixed = np.minimum(np.minimum(part.residual, part.classes), part.seeds)[at]
    design = Design(
        part.classes[at] - mixed,
        part.seeds[at] - mixed,
        mixed,
        np.full(len(at), float(pairs.classes)),
        seeds,
        np.full(len(at), pairs.classes_freedom),
        part.seeds_freedom[at],
        alpha[at],
    )
    seen = np.abs(pairs.difference[at])
    ends = (seen, seen + half[at], np.maximum(seen - half[at], 0.0))
    retrained = pairs.retrained[at]
    in_seeds, in_classes = (seeds, MOST_SEEDS), (design.classes, MOST_CLASSES)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        trained = [end * retrained for end in ends]
        by_seeds, few_seeds = _of_ends(design, Design.more_seeds, Design.seeds_for, trained, in_seeds)
        by_classes, few_classes = _of_ends(design, Design.more_classes, Design.classes_for, ends, in_classes)
        left = [end * ~(few_seeds | few_classes) for end in ends]
        by_both, few_of_both = _of_ends(design, Design.more_of_both, Design.both_for, left, in_seeds, in_classes)
    for index in np.flatnonzero(few_seeds | few_classes | few_of_both).tolist():
        scale = float(seeds[index])
        result[at[index]] = _missing(
            [float(factors[index]) * scale if retrained[index] else np.inf for factors in by_seeds],
            [float(factors[index]) * pairs.classes for factors in by_classes],
            [float(factors[index]) for factors in by_both],
            scale,
            pairs.classes,
        )
    return result


def _of_ends(
    design: Design,
    grown: Callable[[Design, Floats], Floats],
    solve: Callable[[Design, Floats], Floats],
    ends: Sequence[Floats],
    *limits: tuple[Floats, int],
) -> tuple[list[Floats], np.ndarray]:
    """How much larger the study must get for the difference seen and for its ends, and where that is not too much.

    Solving takes long: nothing is solved where even known variances would ask for too much, nor are the ends where the
    difference seen does. limits: what there is, and the most that there may be.
    """

    least = solve(design, design.most_asked(ends[0]))
    hopeless = np.logical_or.reduce([least * have > most for have, most in limits])
    seen = _where_it_differs(design, grown, ends[0] * ~hopeless)
    possible = np.logical_and.reduce([seen * have <= most for have, most in limits])
    return [seen, *(_where_it_differs(design, grown, end * possible) for end in ends[1:])], possible


def _where_it_differs(design: Design, grown: Callable[[Design, Floats], Floats], difference: Floats) -> Floats:
    """Factor by which the study must grow; infinite if the difference is 0, as at the lower end of most ties."""
    at = np.flatnonzero(difference > 0)
    factors = np.full(len(difference), np.inf)
    factors[at] = grown(Design(*(getattr(design, one.name)[at] for one in fields(design))), difference[at])
    return factors


def detectable_effect(
    classes: int, seeds: int, pairs: int, *, over_classes: float, over_seeds: float, alpha: float = 0.05
) -> float:
    """Smallest difference that a study would detect with 80 % power, corrected for all pairs.

    over_classes: standard deviation of a pair's difference over classes. over_seeds: that of a score over seeds.

    >>> round(detectable_effect(100, 3, 45, over_classes=0.15, over_seeds=0.005), 3)
    0.067
    """
    one = np.ones(1)
    by_seeds = 2 * over_seeds**2 / seeds if seeds > 1 else 0.0
    design = Design(
        one * over_classes**2 / classes,
        one * by_seeds,
        0 * one,
        one * classes,
        one * seeds,
        one * (classes - 1),
        one * (2 * (seeds - 1) if seeds > 1 else np.inf),
        one * alpha / pairs,
    )
    return float(np.sqrt((design.by_classes + design.by_seeds) / design.asked(one, one, one))[0])


def _missing(seeds: list[float], classes: list[float], both: list[float], have: float, have_classes: int) -> Numbers:
    """The factor (seeds or classes) that must grow less. Each list: for the observed difference, and for its ends."""
    in_seeds, in_classes = _number(seeds, MOST_SEEDS, 2), _number(classes, MOST_CLASSES, 5)
    if in_seeds and (not in_classes or in_seeds.number / have <= in_classes.number / have_classes):
        return "seeds", in_seeds, in_classes
    if in_classes:
        return "classes", in_seeds, in_classes
    if not math.isfinite(seeds[0]) and not math.isfinite(both[0]):
        return "", None, None
    joint = (
        _number([k * have for k in both], MOST_SEEDS, 2),
        _number([k * have_classes for k in both], MOST_CLASSES, 5),
    )
    return ("both", *joint) if all(joint) else ("", None, None)


def _number(counts: list[float], most: int, least: int) -> Needed | None:
    seen, low, high = counts
    if not math.isfinite(seen) or seen > most:
        return None
    number = max(math.ceil(seen), least)
    lowest = max(math.ceil(low), least) if math.isfinite(low) else least
    return Needed(number, min(lowest, number), math.ceil(high) if math.isfinite(high) and high <= most else None)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Number needed; infinite if no number is enough."""
    result: Floats = np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)
    return result
