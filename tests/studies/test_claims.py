"""Claims: their syntax, and their verdicts on made-up runs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelfield.errors import BadSpecification
from levelfield.studies import parse_study
from levelfield.studies.leaderboard.claims import FAILS, HOLDS, OPEN, Verdict, judge_claims
from levelfield.studies.leaderboard.entries import Entry, class_table
from levelfield.studies.specification.choices import Claim, check_claims


@dataclass(frozen=True)
class MadeUp(Entry):
    """An entry with class means of its own."""

    means: Any = None
    queries: bool = True

    def value(self, metric: str) -> float:
        return float(np.mean(self.means))

    def class_means(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.means), np.ones(len(self.means))


def row(
    level: float, *, seeds: int = 3, noise: float = 0.002, queries: bool = True, seeded: bool = True
) -> list[Entry]:
    random = np.random.default_rng(int(1000 * level) + seeds)
    made = []
    for seed in range(seeds):
        run: Any = SimpleNamespace(seeded=seeded, spec=SimpleNamespace(seed=seed))
        made.append(MadeUp(run, [], level + random.normal(0, noise, 40), queries))
    return list(made)


def judged(*claims: str | dict[str, Any], metric: str = "recall@1", **rows: list[Entry]) -> list[Verdict]:
    queried = all(entry.queries for entries in rows.values() for entry in entries)  # type: ignore[attr-defined]
    tables = {metric: class_table(rows, metric)} if queried else {}
    return judge_claims([Claim.model_validate(claim) for claim in claims], [(rows, tables)], metric)


def said(*claims: str | dict[str, Any], **rows: list[Entry]) -> list[str]:
    return [one.verdict for one in judged(*claims, **rows)]


def test_what_is_clear_holds_or_does_not_and_what_is_close_cannot_be_told() -> None:
    rows = {"good": row(0.8), "bad": row(0.6), "same": row(0.8, noise=0.05)}
    assert said("good > bad", "bad > good", "good > same", **rows) == [HOLDS, FAILS, OPEN]
    assert said("a > fixed", a=row(0.7), fixed=row(0.6, seeds=1, seeded=False)) == [HOLDS]
    [one] = judged("a > b", a=row(0.8, seeds=1), b=row(0.6, seeds=1))
    assert (one.verdict, one.note) == (HOLDS, "for these runs only")


def test_a_seed_that_says_the_opposite_leaves_it_open() -> None:
    rows = {"a": row(0.5), "b": row(0.5, noise=0.0)}
    for entry, difference in zip(rows["a"], (0.1, 0.1, -0.02), strict=True):
        entry.means[:] += difference  # type: ignore[attr-defined]
    assert said("a > b", "b > a", **rows) == [OPEN, OPEN]


def test_equal_within_a_margin() -> None:
    rows = {"a": row(0.700), "b": row(0.705), "c": row(0.75)}
    assert said("a = b", "a = c", {"claim": "a = c", "within": 0.1}, **rows) == [HOLDS, FAILS, HOLDS]
    assert said("a = wild", a=row(0.7), wild=row(0.7, noise=0.3)) == [OPEN]


def test_a_metric_without_queries_is_judged_by_seeds() -> None:
    rows = {"a": row(0.7, queries=False), "b": row(0.6, queries=False)}
    assert said("a > b", **rows) == [HOLDS]
    assert judged("a > b", **rows)[0].note == "over seeds only"
    alone = {label: entries[:1] for label, entries in rows.items()}
    [one] = judged("a > b", metric="nmi", **alone)
    assert (one.verdict, one.p) == (OPEN, None)
    assert "one seed, and no value per class" in one.text


def test_a_difference_that_no_seed_changes_is_no_evidence_without_classes() -> None:
    rows = {
        label: [MadeUp(entry.run, [], [level], False) for entry in row(level)]
        for label, level in (("a", 0.7), ("b", 0.6), ("c", 0.6))
    }
    better, equal = judged("a > b", "b = c", metric="nmi", **rows)
    assert (better.verdict, equal.verdict) == (OPEN, OPEN)
    assert (better.p, better.low, equal.high) == (None, None, None)
    assert better.text == "a > b: cannot be told (nmi +0.100; equal for all 3 seeds, and no value per class)"


def noisy(over_seeds: float, over_classes: float) -> dict[str, list[Entry]]:
    """Two rows that differ by 0.02, with three seeds and 40 classes."""
    random = np.random.default_rng(4)
    base = random.uniform(0.4, 0.9, 40)
    rows: dict[str, list[Entry]] = {}
    for label, level in (("a", 0.02), ("b", 0.0)):
        own = base + level + over_classes * random.standard_normal(40)
        own += level + base.mean() - own.mean()
        moved = over_seeds * np.array([-1.0, 0.0, 1.0])
        runs: list[Any] = [SimpleNamespace(seeded=True, spec=SimpleNamespace(seed=seed)) for seed in range(3)]
        rows[label] = [MadeUp(run, [], own + move) for run, move in zip(runs, moved, strict=True)]
    return rows


@pytest.mark.parametrize(("over_seeds", "over_classes", "missing"), [(0.02, 0.002, "seeds"), (0.0005, 0.06, "classes")])
def test_what_would_resolve_it_is_said_seeds_or_classes(over_seeds: float, over_classes: float, missing: str) -> None:
    [one] = judged({"claim": "a > b", "source": "roth2020 table 4"}, **noisy(over_seeds, over_classes))
    assert (one.verdict, one.missing) == (OPEN, missing)
    number = one.needed_seeds if missing == "seeds" else one.needed_classes
    assert number.low <= number.number
    assert number.number > (3 if missing == "seeds" else 40)
    assert f"{number.text(missing)} would resolve it; roth2020 table 4" in one.text


def test_four_classes_are_too_few_for_any_claim() -> None:
    rows = {
        label: [MadeUp(entry.run, [], entry.class_means("")[0][:4]) for entry in row(level)]  # type: ignore[attr-defined]
        for label, level in (("a", 0.9), ("b", 0.1))
    }
    [one] = judged("a > b", **rows)
    assert (one.verdict, one.p) == (OPEN, None)


def test_a_claim_that_cannot_be_read_is_refused() -> None:
    for claim, told in (
        ("margin is best", "write a claim as `a > b`"),
        ({"claim": "a > b", "metrik": "nmi"}, "Did you mean 'metric'"),
    ):
        with pytest.raises(BadSpecification, match=told):
            parse_study({"data": "emoji", "methods": ["margin"], "claims": [claim]})


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (Claim(claim="margn > lda"), r"not a row of the study\. Did you mean 'margin'"),
        (Claim(claim="margin > margin"), "compares a row with itself"),
        (Claim(claim="margin = margin"), "compares a row with itself"),
        (Claim(claim="margin > lda", metric="nmi"), "'nmi', which the study does not measure"),
    ],
)
def test_a_claim_about_nothing_is_refused(claim: Claim, told: str) -> None:
    with pytest.raises(BadSpecification, match=told):
        check_claims([claim], ["margin", "lda"], ["recall@1"])


def test_a_claim_about_a_tuning_budget_needs_rows_that_had_it() -> None:
    claim = Claim(claim="a > b", trials=20)
    [verdict] = judge_claims([claim], [], "recall@1", trials={"a": 20, "b": 8})
    assert verdict.verdict == OPEN
    assert verdict.note == "the claim is about 20 trials each, but b had 8"
    [verdict] = judge_claims([claim], [], "recall@1", trials={"a": 20, "b": 20})
    assert verdict.text == "a > b: cannot be told (its runs did not finish)"
