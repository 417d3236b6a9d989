"""Random miners: draws follow the documented distribution and are always valid triplets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from levelfield import miners
from levelfield.errors import BadSpecification, UnknownName
from levelfield.geometry import Geometry
from levelfield.randomness import stream

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
RANDOM: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("random", {}),
    "semihard": ("semihard", {}),
    "softhard": ("softhard", {}),
    "distance_weighted": ("distance_weighted", {"upper": None}),
    "distance_weighted, cut": ("distance_weighted", {"upper": 1.2}),
    "distance_weighted, cut, skipping": ("distance_weighted", {"upper": 1.0, "empty": "skip"}),
    "distance_weighted, switched": ("distance_weighted", {"switch": 0.35}),
}
ALL = RANDOM | {
    "all": ("all", {}),
    "random of all": ("random", {"mode": "triplets"}),
    "semihard closest": ("semihard", {"mode": "closest"}),
    "semihard all": ("semihard", {"mode": "all"}),
    "distance_weighted for each positive": ("distance_weighted", {"per_anchor": "positives"}),
}


def geometry(n: int, d: int = 4) -> Geometry:
    return Geometry(torch.randn(n, d, generator=stream(3, "rows", n), dtype=torch.float64), normalize=True)


@pytest.mark.parametrize("which", RANDOM)
def test_frequencies_match_the_stated_law(which: str) -> None:
    name, options = RANDOM[which]
    miner, points, draws = miners.create(name, **options), geometry(len(LABELS)), 600
    law = miner.probabilities(points, LABELS)  # type: ignore[attr-defined]
    positive = law["positive"]
    negative = law.get("negative")
    if negative is None:
        negative = torch.einsum("ap,apn->an", positive, law["negative_given_positive"])
    generator, seen_p, seen_n = stream(0, "draws"), np.zeros((10, 10)), np.zeros((10, 10))
    for _ in range(draws):
        anchor, p, n = miner(points, LABELS, generator=generator).numpy().T  # type: ignore[union-attr]
        seen_p[anchor, p] += 1
        seen_n[anchor, n] += 1
    for seen, expected in ((seen_p, positive.numpy() * draws), (seen_n, negative.numpy() * draws)):
        assert not seen[expected == 0].any()
        for row, theory in zip(seen, expected, strict=True):
            kept = theory > 5  # the chi-square test needs a few expected draws in each cell
            if kept.sum() > 1:
                assert stats.chisquare(row[kept], theory[kept] * row[kept].sum() / theory[kept].sum()).pvalue > 1e-5


@pytest.mark.parametrize("which", ALL)
@settings(max_examples=25, deadline=None)
@given(labels=st.lists(st.integers(0, 4), max_size=12), seed=st.integers(0, 99))
def test_tuples_are_valid_for_any_layout(which: str, labels: list[int], seed: int) -> None:
    name, options = ALL[which]
    classes = torch.tensor(labels, dtype=torch.int64) + 2**33
    triplets = miners.create(name, **options)(geometry(len(labels)), classes, generator=stream(seed, "any"))
    assert isinstance(triplets, torch.Tensor)
    assert triplets.shape[1:] == (3,)
    assert triplets.dtype == torch.int64
    assert triplets[:, 0].tolist() == sorted(triplets[:, 0].tolist())
    for a, p, n in triplets.tolist():
        assert labels[a] == labels[p]
        if a == p:
            assert "switch" in options
            assert labels[n] == labels[a]
            assert n != a
        else:
            assert labels[n] != labels[a]


@pytest.mark.parametrize("which", ["random", "semihard", "softhard", "distance_weighted"])
def test_every_usable_anchor_gives_one_triplet(which: str) -> None:
    triplets = miners.create(which)(geometry(len(LABELS)), LABELS, generator=stream(0, "one"))
    assert isinstance(triplets, torch.Tensor)
    assert triplets[:, 0].tolist() == list(range(9))  # the last is alone in its class


@pytest.mark.parametrize("which", ALL)
def test_same_generator_same_tuples(which: str) -> None:
    name, options = ALL[which]
    miner = miners.create(name, **options)
    first, second = (miner(geometry(10), LABELS, generator=stream(5, "same")) for _ in range(2))
    assert torch.equal(first, second)  # type: ignore[arg-type]


def test_random_of_all_draws_each_triplet_equally_often_and_never_twice() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3])
    miner, points, generator = miners.create("random", mode="triplets"), geometry(7), stream(0, "equal")
    everything = {tuple(t): 0 for t in miner.probabilities(points, labels)["triplets"].tolist()}  # type: ignore[attr-defined]
    for _ in range(500):
        drawn = [tuple(t) for t in miner(points, labels, generator=generator).tolist()]  # type: ignore[union-attr]
        assert len(set(drawn)) == 7
        for triplet in drawn:
            everything[triplet] += 1
    assert stats.chisquare(list(everything.values())).pvalue > 1e-5


def test_random_of_all_takes_all_when_there_are_fewer_than_rows() -> None:
    labels = torch.tensor([0, 0, 1])
    triplets = miners.create("random", mode="triplets")(geometry(3), labels, generator=stream(0, "few"))
    assert sorted(triplets.tolist()) == [[0, 1, 2], [1, 0, 2]]  # type: ignore[union-attr]


def test_switch_leaves_the_other_tuples_as_they_were() -> None:
    plain = miners.create("distance_weighted")(geometry(10), LABELS, generator=stream(0, "switch"))
    switched = miners.create("distance_weighted", switch=0.5)(geometry(10), LABELS, generator=stream(0, "switch"))
    assert isinstance(plain, torch.Tensor)
    assert isinstance(switched, torch.Tensor)
    changed = switched[:, 0] == switched[:, 1]
    assert 0 < changed.sum() < len(plain)
    assert torch.equal(plain[~changed], switched[~changed])


def test_no_global_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    for name, options in ALL.values():
        miners.create(name, **options)(geometry(10), LABELS, generator=stream(0, "global"))
    assert torch.equal(before, torch.get_rng_state())


def test_unknown_names_and_settings_name_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'semihard'"):
        miners.create("semi_hard")
    with pytest.raises(BadSpecification, match="Did you mean 'lower'"):
        miners.create("distance_weighted", lowr=0.3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("semihard", {"mode": "hardest"}),
        ("semihard", {"margin": "0.2"}),
        ("distance_weighted", {"lower": 0}),
        ("distance_weighted", {"upper": 0.4}),
        ("distance_weighted", {"empty": "none"}),
        ("random", {"mode": "all"}),
        ("random", {"switch": 1.5}),
        ("all", {"switch": 0.5}),
        ("multi_similarity", {"epsilon": float("inf")}),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadSpecification):
        miners.create(name, **options)


@pytest.mark.parametrize("name", miners.names())
def test_facts_fit_the_constructor(name: str) -> None:
    facts = miners.describe(name)
    assert facts.rule
    assert set(facts.sources) <= set(facts.defaults)
