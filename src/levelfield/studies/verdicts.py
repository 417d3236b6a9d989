"""What the runs of a study say of its claims: holds, does not hold, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.studies.claims import Claim
from levelfield.studies.entries import Entry, paired, paired_classes
from levelfield.studies.seeds import paired_t, seeds_needed
from levelfield.studies.statistics import holm, paired_bootstrap, t_interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """What the runs say of a claim. `seeds`: how many would settle it, where that is known and more are needed."""

    claim: str
    metric: str
    source: str
    verdict: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    seeds: int | None = None
    note: str = ""

    @property
    def text(self) -> str:
        """In one line.

        >>> Verdict("a > b", "nmi", "002 table 4", "holds", 0.02, 0.01, 0.03, 0.01).text
        'a > b: holds (nmi +0.020, 95 % +0.010 to +0.030; 002 table 4)'
        """
        told = [] if self.difference is None else [f"{self.metric} {self.difference:+.3f}"]
        if self.low is not None and self.high is not None:
            told[-1] += f", 95 % {self.low:+.3f} to {self.high:+.3f}"
        return f"{self.claim}: {self.verdict} ({'; '.join([*told, *filter(None, (self.note, self.source))])})"


@dataclass(frozen=True)
class _Difference:
    """How much the first row is above the second: by test classes where the metric has queries, else by seeds."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    by_seed: np.ndarray


def judge(
    claims: Sequence[Claim], found: Mapping[str, list[Entry]], metric: str, *, draws: int = 10_000
) -> list[Verdict]:
    """The verdict on each claim. Those of the form `a > b` are Holm-corrected together, 5 % in all."""
    differences = [_difference(one, found, one.metric or metric, draws) for one in claims]
    chances = {
        k: d.p
        for k, (one, d) in enumerate(zip(claims, differences, strict=True))
        if one.parts[1] == ">" and d is not None and d.p is not None
    }
    corrected = dict(zip(chances, holm(list(chances.values())), strict=True))
    return [
        _verdict(one, d if d is None else replace(d, p=corrected.get(k, d.p)), one.metric or metric)
        for k, (one, d) in enumerate(zip(claims, differences, strict=True))
    ]


def _difference(claim: Claim, found: Mapping[str, list[Entry]], metric: str, draws: int) -> _Difference | None:
    """None if the two rows have no finished runs with a seed in common."""
    first, _, second = claim.parts
    pairs = paired(found[first], found[second]) if first in found and second in found else []
    if not pairs:
        return None
    by_seed = np.array([a.value(metric) - b.value(metric) for a, b in pairs])
    if all(entry.has_queries(metric) for pair in pairs for entry in pair):
        compared = paired_bootstrap(*paired_classes(pairs, metric), draws=draws)
        return _Difference(compared.difference, compared.low, compared.high, compared.p, by_seed)
    interval = t_interval(by_seed)
    if interval is None:
        return _Difference(float(by_seed[0]), None, None, None, by_seed)
    return _Difference(interval.mean, interval.low, interval.high, paired_t(by_seed), by_seed)


def _verdict(claim: Claim, found: _Difference | None, metric: str) -> Verdict:
    if found is None:
        return Verdict(claim.claim, metric, claim.source, OPEN, note="its runs did not finish")
    seeds = seeds_needed(found.by_seed)
    said = _said(claim, found)
    note = _what_would_settle(seeds, len(found.by_seed)) if said == OPEN else _against(claim, found)
    return Verdict(
        claim.claim, metric, claim.source, said, found.value, found.low, found.high, found.p,
        seeds if said == OPEN else None, note,
    )  # fmt: skip


def _said(claim: Claim, found: _Difference) -> str:
    if claim.parts[1] == "=":
        if found.low is None or found.high is None:
            return OPEN
        if max(-found.low, found.high) <= claim.within:
            return HOLDS
        return FAILS if found.low > claim.within or found.high < -claim.within else OPEN
    if found.p is None or found.p >= LEVEL:
        return OPEN
    return HOLDS if found.value > 0 else FAILS


def _against(claim: Claim, found: _Difference) -> str:
    """The test classes agree; whether training again would is another question, which single seeds may deny."""
    opposite = int((np.sign(found.by_seed) == -np.sign(found.value)).sum())
    return f"the opposite with {opposite} of {len(found.by_seed)} seeds" if opposite and claim.parts[1] == ">" else ""


def _what_would_settle(seeds: int | None, have: int) -> str:
    if have < 2:
        return "one seed: how many would settle it is not known"
    if seeds is None:
        return "no number of seeds would settle it"
    return f"about {seeds} seeds would settle it" if seeds > have else "it depends on the test classes, not on seeds"
