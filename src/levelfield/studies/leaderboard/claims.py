"""Verdicts on the claims of a study (holds, does not hold, or cannot be told), and what an open one would take.

Claims are tested like the rows of a leaderboard, with the crossed test. They were made before the runs, so Holm's
correction is over the claims of the study, not over all pairs of rows. A metric without a value per query, such as
nmi, is tested over seeds by Student's paired test, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.evaluation.statistics.comparisons import Comparison, holm, joint
from levelfield.evaluation.statistics.crossed import MIN_CLASSES, Differences, ScoreMoments
from levelfield.evaluation.statistics.intervals import t_interval
from levelfield.evaluation.statistics.needed import Needed
from levelfield.studies.leaderboard.entries import Entry, paired
from levelfield.studies.specification.choices import Claim
from levelfield.wording import plural

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
_MIN_CLASSES = 20  # with fewer test classes only large differences can be established
_ROUNDING = 1e-9  # a smaller variation of a difference over seeds counts as none
Part = tuple[Mapping[str, list[Entry]], Mapping[str, ScoreMoments]]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim. p: after Holm's correction. missing, needed_seeds, needed_classes: of an open claim."""

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


def judge_claims(
    claims: Sequence[Claim], parts: Sequence[Part], metric: str, *, trials: Mapping[str, int] | None = None
) -> list[Verdict]:
    """The verdict on each claim. Claims `a > b` are Holm-corrected together, 5 % in all.

    parts: for each test set, the entries of its rows and the table of every metric with a value per query.
    trials: number of tuning trials of each row. A claim about another budget cannot be judged.
    """
    crossed: dict[int, Differences] = {}
    by_seeds: dict[int, Comparison] = {}
    notes = [_other_budget(claim, trials or {}) for claim in claims]
    for k, claim in enumerate(claims):
        first, _, second = claim.parts
        name = claim.metric or metric
        part = next((part for part in parts if first in part[0] and second in part[0]), None)
        if part is None or notes[k]:
            continue
        entries, tables = part
        if name in tables:
            crossed[k] = tables[name].differences(first, second)
        elif pairs := paired(entries[first], entries[second]):
            by_seeds[k] = _by_seeds(claim, pairs, name)
    comparisons = _corrected(claims, crossed, by_seeds)
    return [_verdict(claim, comparisons.get(k), claim.metric or metric, notes[k]) for k, claim in enumerate(claims)]


def _corrected(
    claims: Sequence[Claim], crossed: Mapping[int, Differences], by_seeds: Mapping[int, Comparison]
) -> dict[int, Comparison]:
    """The tests of all claims by number; those of `a > b` corrected together."""
    better = [k for k, claim in enumerate(claims) if claim.parts[1] == ">"]
    p_values = {k: test.p for k, test in by_seeds.items() if k in better and test.p is not None}
    together = [k for k in better if k in crossed]
    corrected = joint([crossed[k] for k in together], other_p_values=list(p_values.values()))
    tests = dict(zip(together, corrected, strict=True))
    others = [1.0 if (p := tests[k].p) is None else p for k in together]
    adjusted = dict(zip(p_values, holm([*p_values.values(), *others]), strict=False))
    tests |= {k: joint([crossed[k]])[0] for k in crossed if k not in tests}
    return tests | {k: replace(test, adjusted=adjusted.get(k)) for k, test in by_seeds.items()}


def _other_budget(claim: Claim, trials: Mapping[str, int]) -> str:
    """A note if the rows of a claim were not tuned with the claim's budget; empty if they were."""
    if claim.trials is None:
        return ""
    first, _, second = claim.parts
    other = {label: trials.get(label, 0) for label in (first, second) if trials.get(label, 0) != claim.trials}
    budgets = " and ".join(f"{label} had {count}" for label, count in other.items())
    return f"the claim is about {claim.trials} trials each, but {budgets}" if other else ""


def _by_seeds(claim: Claim, pairs: list[tuple[Entry, Entry]], metric: str) -> Comparison:
    """Student's paired test, for a metric without a value per class; p is None if the difference does not vary."""
    from scipy.special import stdtr

    differences = np.array([a.value(metric) - b.value(metric) for a, b in pairs])
    count, mean, interval = len(pairs), float(differences.mean()), t_interval(differences)
    low = high = t = p = None
    if interval is not None and interval.half_width >= _ROUNDING:
        low, high = interval.low, interval.high
        t = mean / (float(differences.std(ddof=1)) / math.sqrt(count))
        p = float(2 * stdtr(count - 1, -abs(t)))
    first, _, second = claim.parts
    return Comparison(first, second, mean, low, high, t, count - 1, p, None, 0, (count, count), True)


def _verdict(claim: Claim, pair: Comparison | None, metric: str, note: str) -> Verdict:
    """note: why the claim could not be tested, if that is known."""
    if pair is None:
        return Verdict(claim.claim, metric, claim.source, OPEN, note=note or "its runs did not finish")
    result = _decision(claim, pair)
    if not pair.classes:
        seeds = "one seed" if pair.seeds[0] == 1 else f"equal for all {pair.seeds[0]} seeds"
        note = f"{seeds}, and no value per class" if pair.p is None else "over seeds only"
    elif result == OPEN:
        note = _open_note(pair)
    else:
        note = "" if pair.retrained else "for these runs only"
    verdict = Verdict(
        claim.claim, metric, claim.source, result, pair.difference, pair.low, pair.high, pair.adjusted, note
    )
    if result != OPEN:
        return verdict
    return replace(verdict, missing=pair.missing, needed_seeds=pair.needed_seeds, needed_classes=pair.needed_classes)


def _open_note(pair: Comparison) -> str:
    """Why a claim is open, and what would resolve it."""
    if numbers := needed_text(pair):
        return "; ".join(filter(None, (pair.only_alone, f"{numbers} would resolve it")))
    if pair.classes < MIN_CLASSES:
        return f"{pair.classes} test classes are too few"
    return "too small a difference to say what would resolve it"


def _decision(claim: Claim, pair: Comparison) -> str:
    if claim.parts[1] == ">":
        return OPEN if not pair.better() else HOLDS if pair.difference > 0 else FAILS
    if pair.low is None or pair.high is None:
        return OPEN
    if max(-pair.low, pair.high) <= claim.within:
        return HOLDS
    return FAILS if pair.low > claim.within or pair.high < -claim.within else OPEN


def limit_sentence(comparisons: Sequence[Comparison]) -> str:
    """If no difference was established: how many classes (or seeds) would detect the largest one.

    >>> few = Comparison("a", "b", 0.1, None, None, None, None, None, None, 4, (3, 3), True, "classes", None,
    ...                  Needed(14, 6, None))
    >>> limit_sentence([few])
    '4 test classes: no difference can be established; 14 classes would be needed to detect a difference of 0.100.'
    """
    if not comparisons or any(pair.better() for pair in comparisons):
        return ""
    widest = max(comparisons, key=lambda pair: abs(pair.difference))
    sentence = plural(widest.classes, "test class", "test classes")
    if widest.retrained and widest.classes >= MIN_CLASSES:
        sentence += f" and {plural(max(widest.seeds), 'seed', 'seeds')}"
    sentence += f": no difference {'can be' if widest.classes < _MIN_CLASSES else 'was'} established"
    numbers = needed_text(widest, brief=True)
    if numbers:
        return f"{sentence}; {numbers} would be needed to detect a difference of {abs(widest.difference):.3f}."
    least = f"; at least {MIN_CLASSES} are needed." if widest.classes < MIN_CLASSES else "."
    return sentence + least


def needed_text(pair: Comparison, *, brief: bool = False) -> str:
    """How many seeds or classes would resolve a tie, with 80 % power; empty if unknown.

    >>> tie = Comparison("a", "b", 0.01, -0.01, 0.03, 1.0, 9.0, 0.3, 0.3, 50, (3, 3), True, "seeds", Needed(9, 4, None))
    >>> needed_text(tie)
    '9 seeds (95 %: 4 or more)'
    """
    numbers = {"seeds": pair.needed_seeds, "classes": pair.needed_classes}
    parts = [(number, word) for word, number in numbers.items() if number and pair.missing in (word, "both")]
    return " and ".join(f"{number.number:,} {word}" if brief else number.text(word) for number, word in parts)
