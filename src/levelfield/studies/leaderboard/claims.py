"""Verdicts on the claims of a study: holds, does not hold, or cannot be told.

Claims are tested like the rows of a leaderboard, with the crossed test. They were made before the runs, so Holm's
correction is over the claims of the study, not over all pairs of rows. A metric without a value per query, such as
nmi, is tested over seeds by Student's paired test, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.evaluation.statistics import ALPHA, MIN_CLASSES, Comparison, Needed, Table, holm, joint, t_interval
from levelfield.studies.leaderboard.entries import Entry, paired
from levelfield.studies.leaderboard.limits import needed_text
from levelfield.studies.specification.choices import Claim

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
_ROUNDING = 1e-9  # a smaller variation of a difference over seeds counts as none
Part = tuple[Mapping[str, list[Entry]], Mapping[str, Table]]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim. missing, needed_seeds, needed_classes: what would resolve a claim that cannot be
    told."""

    claim: str
    metric: str
    source: str
    verdict: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    note: str = ""
    missing: str = ""
    needed_seeds: Needed | None = None
    needed_classes: Needed | None = None

    @property
    def text(self) -> str:
        """The verdict in one line.

        >>> Verdict("a > b", "nmi", "roth2020 table 4", "holds", 0.02, 0.01, 0.03, 0.01).text
        'a > b: holds (nmi +0.020, 95 % +0.010 to +0.030; roth2020 table 4)'
        """
        details = [] if self.difference is None else [f"{self.metric} {self.difference:+.3f}"]
        if self.low is not None and self.high is not None:
            details[-1] += f", 95 % {self.low:+.3f} to {self.high:+.3f}"
        return f"{self.claim}: {self.verdict} ({'; '.join([*details, *filter(None, (self.note, self.source))])})"


@dataclass(frozen=True)
class _BySeeds:
    """The difference in a metric without a value per class; p is None if it does not vary over seeds."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    seeds: int


def judge_claims(
    claims: Sequence[Claim], parts: Sequence[Part], metric: str, *, trials: Mapping[str, int] | None = None
) -> list[Verdict]:
    """The verdict on each claim. Claims `a > b` are Holm-corrected together, 5 % in all.

    parts: for each test set, the entries of its rows and the table of every metric with a value per query.
    trials: number of tuning trials of each row. A claim about another budget cannot be judged.
    """
    test_sets = [_test_set_of(one, parts) if not _other_budget(one, trials or {}) else None for one in claims]
    crossed, by_seeds = {}, {}
    for k, (one, test_set) in enumerate(zip(claims, test_sets, strict=True)):
        first, _, second = one.parts
        if test_set is not None and (one.metric or metric) in test_set[1]:
            crossed[k] = test_set[1][one.metric or metric].differences(first, second)
        elif test_set is not None and (pairs := paired(test_set[0][first], test_set[0][second])):
            by_seeds[k] = _by_seeds(pairs, one.metric or metric)
    better = [k for k, one in enumerate(claims) if one.parts[1] == ">"]
    chances = {k: difference.p for k in better if k in by_seeds and (difference := by_seeds[k]).p is not None}
    together = [k for k in better if k in crossed]
    tested = dict(zip(together, joint([crossed[k] for k in together], beside=list(chances.values())), strict=True))
    tested |= {k: joint([crossed[k]])[0] for k in crossed if k not in tested}
    own = [tested[k].p or 1.0 for k in together]
    corrected = dict(zip(chances, holm([*chances.values(), *own]), strict=False))
    result = []
    for k, one in enumerate(claims):
        if k in tested:
            result.append(_of_classes(one, tested[k], one.metric or metric))
        elif k in by_seeds:
            result.append(_of_seeds(one, by_seeds[k], one.metric or metric, corrected.get(k)))
        else:
            note = _other_budget(one, trials or {}) or "its runs did not finish"
            result.append(Verdict(one.claim, one.metric or metric, one.source, OPEN, note=note))
    return result


def _other_budget(claim: Claim, trials: Mapping[str, int]) -> str:
    """A note if the rows of a claim were not tuned with the claim's budget; empty if they were.

    >>> _other_budget(Claim(claim="a > b", trials=20), {"a": 20, "b": 8})
    'the claim is about 20 trials each, but b had 8'
    """
    if claim.trials is None:
        return ""
    first, _, second = claim.parts
    other = {label: trials.get(label, 0) for label in (first, second) if trials.get(label, 0) != claim.trials}
    budgets = " and ".join(f"{label} had {count}" for label, count in other.items())
    return f"the claim is about {claim.trials} trials each, but {budgets}" if other else ""


def _test_set_of(claim: Claim, parts: Sequence[Part]) -> Part | None:
    """The test set that has both rows; None if there is none."""
    first, _, second = claim.parts
    return next((part for part in parts if first in part[0] and second in part[0]), None)


def _of_classes(claim: Claim, comparison: Comparison, metric: str) -> Verdict:
    result = _verdict(claim, comparison.difference, comparison.low, comparison.high, comparison.adjusted)
    lacks = (
        (comparison.missing, comparison.needed_seeds, comparison.needed_classes) if result == OPEN else ("", None, None)
    )
    note = _what_would_resolve(comparison) if result == OPEN else "" if comparison.retrained else "for these runs only"
    return Verdict(
        claim.claim,
        metric,
        claim.source,
        result,
        comparison.difference,
        comparison.low,
        comparison.high,
        comparison.adjusted,
        note,
        *lacks,
    )


def _of_seeds(claim: Claim, difference: _BySeeds, metric: str, corrected: float | None) -> Verdict:
    result = _verdict(claim, difference.value, difference.low, difference.high, corrected)
    seeds = "one seed" if difference.seeds == 1 else f"equal for all {difference.seeds} seeds"
    note = f"{seeds}, and no value per class" if difference.p is None else "over seeds only"
    return Verdict(
        claim.claim, metric, claim.source, result, difference.value, difference.low, difference.high, corrected, note
    )


def _verdict(claim: Claim, difference: float, low: float | None, high: float | None, p: float | None) -> str:
    if claim.parts[1] == "=":
        if low is None or high is None:
            return OPEN
        if max(-low, high) <= claim.within:
            return HOLDS
        return FAILS if low > claim.within or high < -claim.within else OPEN
    if p is None or p >= ALPHA:
        return OPEN
    return HOLDS if difference > 0 else FAILS


def _what_would_resolve(comparison: Comparison) -> str:
    numbers = needed_text(comparison)
    if numbers:
        return f"{numbers} would resolve it"
    if comparison.classes < MIN_CLASSES:
        return f"{comparison.classes} test classes are too few"
    return "too small a difference to say what would resolve it"


def _by_seeds(pairs: list[tuple[Entry, Entry]], metric: str) -> _BySeeds:
    differences = np.array([a.value(metric) - b.value(metric) for a, b in pairs])
    interval = t_interval(differences)
    if interval is None or interval.half_width < _ROUNDING:
        return _BySeeds(float(differences.mean()), None, None, None, len(differences))
    return _BySeeds(interval.mean, interval.low, interval.high, _paired_t(differences), len(differences))


def _paired_t(differences: np.ndarray) -> float:
    """Two-sided p-value of Student's paired test, for differences that vary.

    >>> round(_paired_t(np.array([0.01, 0.02, 0.03])), 4)
    0.0742
    """
    from scipy.special import stdtr

    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return float(2 * stdtr(len(differences) - 1, -abs(float(differences.mean())) / error))
