"""Claims: how they are written, and what made-up runs say of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelfield.errors import BadSpecification
from levelfield.studies import parse_study
from levelfield.studies.claims import Claim, check_claims
from levelfield.studies.entries import Entry
from levelfield.studies.verdicts import FAILS, HOLDS, OPEN, judge


@dataclass(frozen=True)
class MadeUp(Entry):
    """An entry with class means of its own."""

    means: Any = None
    queries: bool = True

    def value(self, metric: str) -> float:
        return float(np.mean(self.means))

    def has_queries(self, metric: str) -> bool:
        return self.queries

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


def said(*claims: str | dict[str, Any], **rows: list[Entry]) -> list[str]:
    return [one.verdict for one in judge([Claim.model_validate(c) for c in claims], rows, "recall@1", draws=500)]


def test_what_is_clear_holds_or_does_not_and_what_is_close_cannot_be_told() -> None:
    rows = {"good": row(0.8), "bad": row(0.6), "same": row(0.8, noise=0.05)}
    assert said("good > bad", "bad > good", "good > same", **rows) == [HOLDS, FAILS, OPEN]


def test_equal_within_a_margin() -> None:
    rows = {"a": row(0.700), "b": row(0.705), "c": row(0.75), "wild": row(0.7, noise=0.3)}
    claims = ["a = b", "a = c", {"claim": "a = c", "within": 0.1}, "a = wild"]
    assert said(*claims, **rows) == [HOLDS, FAILS, HOLDS, OPEN]


def test_what_no_seed_changes_is_compared_with_every_seed() -> None:
    [one] = judge([Claim(claim="a > fixed")], {"a": row(0.7), "fixed": row(0.6, seeds=1, seeded=False)}, "recall@1")
    assert one.verdict == HOLDS


def test_a_metric_without_queries_is_judged_by_seeds() -> None:
    rows = {"a": row(0.7, queries=False), "b": row(0.6, queries=False)}
    assert said("a > b", **rows) == [HOLDS]
    alone = {label: entries[:1] for label, entries in rows.items()}
    [one] = judge([Claim(claim="a > b")], alone, "nmi")
    assert (one.verdict, one.p) == (OPEN, None)
    assert "one seed: how many would settle it is not known" in one.text


def test_how_many_seeds_would_settle_it_is_said() -> None:
    random = np.random.default_rng(0)
    rows: dict[str, list[Entry]] = {"a": [], "b": []}
    for seed, difference in enumerate((0.02, -0.01, 0.01)):
        base = random.normal(0.7, 0.2, 40)
        run: Any = SimpleNamespace(seeded=True, spec=SimpleNamespace(seed=seed))
        rows["a"].append(MadeUp(run, [], base + difference))
        rows["b"].append(MadeUp(run, [], base + np.tile([0.2, -0.2], 20)))
    [one] = judge([Claim(claim="a > b", source="002 table 4")], rows, "recall@1")
    assert one.verdict == OPEN
    assert one.seeds is not None
    assert one.seeds > 3
    assert f"about {one.seeds} seeds would settle it; 002 table 4" in one.text


def test_seeds_that_say_the_opposite_are_counted() -> None:
    rows: dict[str, list[Entry]] = {"a": [], "b": []}
    for seed, difference in enumerate((0.1, 0.1, -0.02)):
        run: Any = SimpleNamespace(seeded=True, spec=SimpleNamespace(seed=seed))
        base = np.linspace(0.4, 0.9, 40)
        rows["a"].append(MadeUp(run, [], base + difference))
        rows["b"].append(MadeUp(run, [], base))
    for claim, verdict in (("a > b", HOLDS), ("b > a", FAILS)):
        [one] = judge([Claim(claim=claim)], rows, "recall@1")
        assert one.verdict == verdict
        assert "the opposite with 1 of 3 seeds" in one.text
    [one] = judge([Claim(claim="a = b", within=0.1)], rows, "recall@1")
    assert (one.verdict, one.note) == (HOLDS, "")


def test_runs_that_did_not_finish_are_said() -> None:
    [one] = judge([Claim(claim="a > b")], {"a": row(0.7)}, "recall@1")
    assert one.text == "a > b: cannot be told (its runs did not finish)"


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ("margin is best", "write a claim as `a > b`"),
        ({"claim": "a > b", "metrik": "nmi"}, "Did you mean 'metric'"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused(claim: Any, told: str) -> None:
    with pytest.raises(BadSpecification, match=told):
        parse_study({"data": "emoji", "methods": ["margin"], "claims": [claim]})


def test_a_claim_about_nothing_is_refused() -> None:
    with pytest.raises(BadSpecification, match=r"no row of the study\. Did you mean 'margin'"):
        check_claims([Claim(claim="margn > lda")], ["margin", "lda"], ["recall@1"])
    for sign in (">", "="):
        with pytest.raises(BadSpecification, match="compares a row with itself"):
            check_claims([Claim(claim=f"margin {sign} margin")], ["margin", "lda"], ["recall@1"])
    with pytest.raises(BadSpecification, match="'nmi', which the study does not measure"):
        check_claims([Claim(claim="margin > lda", metric="nmi")], ["margin", "lda"], ["recall@1"])
