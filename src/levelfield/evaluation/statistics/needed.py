"""Number of seeds or test classes needed to resolve a tie with 80 % power."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from levelfield.evaluation.statistics.crossed import MIN_CLASSES, Differences, Floats, degrees_of_freedom

POWER = 0.8
MOST_SEEDS, MOST_CLASSES = 1000, 100_000  # larger numbers are not practical
_ROUNDS = 8  # iterations: the number and the degrees of freedom depend on each other
Advice = tuple[str, "Needed | None", "Needed | None"]  # missing factor, seeds, classes
NO_ADVICE: Advice = ("", None, None)


@dataclass(frozen=True)
class Needed:
    """Total number needed for the observed difference, and for the ends of its 95 % interval (None: unbounded).

    >>> Needed(12, 5, None).text("seeds")
    '12 seeds (95 %: 5 or more)'
    """

    number: int
    low: int
    high: int | None

    def text(self, what: str) -> str:
        span = f"{self.low:,} or more" if self.high is None else f"{self.low:,} to {self.high:,}"
        return f"{self.number:,} {what} (95 %: {span})"


@dataclass(frozen=True)
class Design:
    """A study whose size can grow; one entry per pair of methods.

    by_classes, by_seeds, mixed: the parts of a difference's variance that shrink with more classes, with more seeds,
    and with either.
    """

    by_classes: Floats
    by_seeds: Floats
    mixed: Floats
    classes: Floats
    seeds: Floats
    classes_freedom: Floats
    seeds_freedom: Floats
    alpha: Floats

    def largest_variance(self, difference: Floats, more_classes: Floats, more_seeds: Floats) -> Floats:
        """The largest variance at which the test of a study of `more_classes` times the classes and `more_seeds` times
        the seeds detects `difference` with the required power."""
        from scipy.special import ndtri, stdtrit

        of_classes = self.by_classes / more_classes + self.mixed / (more_classes * more_seeds)
        of_seeds = (self.by_seeds + self.mixed / more_classes) / more_seeds
        total = self.by_classes / more_classes + of_seeds
        classes_freedom = self.classes_freedom * (self.classes * more_classes - 1) / (self.classes - 1)
        grown = np.where(self.seeds > 1, (self.seeds * more_seeds - 1) / np.maximum(self.seeds - 1, 1), 1.0)
        seeds_freedom = self.seeds_freedom * grown
        doubt = of_classes**2 / classes_freedom + of_seeds**2 / seeds_freedom
        df = np.clip(total**2 / doubt, np.minimum(classes_freedom, seeds_freedom), classes_freedom)
        critical = stdtrit(degrees_of_freedom(of_classes, classes_freedom, of_seeds, seeds_freedom), 1 - self.alpha / 2)
        # normal approximation of the noncentral t (Johnson and Kotz), accurate enough here
        centre = critical * (1 - 1 / (4 * df)) + ndtri(POWER) * np.sqrt(1 + critical**2 / (2 * df))
        return np.asarray((difference / centre) ** 2)

    def growth(self, difference: Floats, *, classes: bool, seeds: bool) -> Floats:
        """Factor by which the classes, the seeds or both must grow to detect `difference`; infinite if no size does."""
        at = np.flatnonzero(difference > 0)
        part, wanted = Design(*(getattr(self, each.name)[at] for each in fields(self))), difference[at]

        def factor_for(variance: Floats) -> Floats:
            """Solve variance = fixed + single / factor + double / factor^2."""
            single = part.by_classes * classes + part.by_seeds * seeds
            single, double = (single, part.mixed) if classes and seeds else (single + part.mixed, 0.0)
            room = variance - part.by_classes * (not classes) - part.by_seeds * (not seeds)
            factor: Floats = (single + np.sqrt(single**2 + 4 * np.maximum(room, 0) * double)) / (2 * room)
            return np.where(np.isposinf(room), 0.0, np.where(room > 0, factor, np.inf))

        unchanged = factor = np.ones(len(at))
        for last in [False] * _ROUNDS + [True]:
            tried = np.minimum(factor, 1e6)
            growths = (tried if grows else unchanged for grows in (classes, seeds))
            variance = part.largest_variance(wanted, *growths)
            solved = np.maximum(factor_for(variance), 1e-3)
            factor = solved if last else np.sqrt(tried * solved)  # half a log step, against oscillation
        result = np.full(len(difference), np.inf)
        result[at] = factor
        return result


def needed(pairs: Differences, half: Floats, alpha: Floats, ties: np.ndarray) -> list[Advice]:
    """For every tie, the missing factor and the number needed; `NO_ADVICE` for other pairs and equal scores.

    half: half the width of the difference's interval. alpha: the level of each pair after correction.
    """
    result = [NO_ADVICE] * len(pairs.difference)
    at = np.flatnonzero(ties & (pairs.difference != 0) & (pairs.variance.classes > 0))
    if not len(at) or pairs.classes < 2:
        return result
    seeds, classes, part = pairs.fewest[at], np.full(len(at), float(pairs.classes)), pairs.variance
    mixed = np.minimum(np.minimum(part.residual, part.classes), part.seeds)[at]
    design = Design(
        part.classes[at] - mixed,
        part.seeds[at] - mixed,
        mixed,
        classes,
        seeds,
        np.full(len(at), pairs.classes_freedom),
        part.seeds_freedom[at],
        alpha[at],
    )
    seen = np.abs(pairs.difference[at])
    ends = np.stack([seen, seen + half[at], np.maximum(seen - half[at], 0.0)])
    most_seeds, most_classes = MOST_SEEDS / seeds, MOST_CLASSES / classes

    def growth(ends: Floats, most: Floats, **grown: bool) -> Floats:
        """Factors for the observed difference and, where that is possible, for the ends of its interval."""
        first = design.growth(ends[0], **grown)
        first[first > most] = np.inf
        return np.stack([first, *(design.growth(end * np.isfinite(first), **grown) for end in ends[1:])])

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        more_seeds = growth(ends * pairs.retrained[at], most_seeds, classes=False, seeds=True)
        more_classes = growth(ends, most_classes, classes=True, seeds=False)
        neither = np.isinf(more_seeds[0]) & np.isinf(more_classes[0])
        more_of_both = growth(ends * neither, np.minimum(most_seeds, most_classes), classes=True, seeds=True)
    for number in np.flatnonzero(np.isfinite([more_seeds[0], more_classes[0], more_of_both[0]]).any(axis=0)).tolist():
        have, have_classes = float(seeds[number]), pairs.classes
        both = more_of_both[:, number]
        in_seeds = _numbers((both if neither[number] else more_seeds[:, number]) * have, int(have) + 1, MOST_SEEDS)
        in_classes = _numbers(
            (both if neither[number] else more_classes[:, number]) * have_classes,
            max(MIN_CLASSES, have_classes + 1),
            MOST_CLASSES,
        )
        missing = "seeds" if in_seeds else "classes"
        if in_seeds and in_classes and in_seeds.number / have > in_classes.number / have_classes:
            missing = "classes"
        result[at[number]] = "both" if neither[number] else missing, in_seeds, in_classes
    return result


def detectable_effect(
    classes: int, seeds: int, pairs: int, *, over_classes: float, over_seeds: float, alpha: float = 0.05
) -> float:
    """Smallest difference that a study would detect with 80 % power, corrected for all pairs.

    over_classes: standard deviation of a pair's difference over classes. over_seeds: that of a score over seeds.

    >>> round(detectable_effect(100, 3, 45, over_classes=0.15, over_seeds=0.005), 3)
    0.067
    """
    by_classes, by_seeds = over_classes**2 / classes, 2 * over_seeds**2 / seeds if seeds > 1 else 0.0
    seeds_freedom = 2 * (seeds - 1) if seeds > 1 else np.inf
    facts = by_classes, by_seeds, 0.0, classes, seeds, classes - 1, seeds_freedom, alpha / pairs
    design, unit = Design(*(np.array([float(fact)]) for fact in facts)), np.ones(1)
    return float(np.sqrt((by_classes + by_seeds) / design.largest_variance(unit, unit, unit))[0])


def _numbers(counts: Floats, least: int, most: int) -> Needed | None:
    """From the counts for the observed difference and for the ends of its interval; None: no count is enough.

    least: one more than there are, which did not suffice.
    """
    seen, low, high = (max(math.ceil(count), least) if math.isfinite(count) else None for count in counts)
    if seen is None:
        return None
    return Needed(seen, min(low or least, seen), high if high is not None and high <= most else None)
