"""Random miners always draw valid triplets, the same from the same generator. Their laws: tests/parity."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield import miners
from levelfield.errors import BadSpecification
from levelfield.geometry import Geometry
from levelfield.randomness import stream

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
ALL: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("all", {}),
    "random": ("random", {}),
    "random of all": ("random", {"mode": "triplets"}),
    "semihard": ("semihard", {}),
    "semihard closest": ("semihard", {"mode": "closest"}),
    "semihard all": ("semihard", {"mode": "all"}),
    "softhard": ("softhard", {}),
    "distance_weighted": ("distance_weighted", {"upper": None}),
    "distance_weighted, cut": ("distance_weighted", {"upper": 1.2}),
    "distance_weighted, cut, skipping": ("distance_weighted", {"upper": 1.0, "empty": "skip"}),
    "distance_weighted, switched": ("distance_weighted", {"switch": 0.35}),
    "distance_weighted for each positive": ("distance_weighted", {"per_anchor": "positives"}),
    "n_pair": ("n_pair", {}),
}


def geometry(n: int, d: int = 4) -> Geometry:
    return Geometry(torch.randn(n, d, generator=stream(3, "rows", n), dtype=torch.float64), normalize=True)


@pytest.mark.parametrize("which", ALL)
@settings(max_examples=25, deadline=None)
@given(labels=st.lists(st.integers(0, 4), max_size=12), seed=st.integers(0, 99))
def test_tuples_are_valid_for_any_layout(which: str, labels: list[int], seed: int) -> None:
    name, options = ALL[which]
    classes = torch.tensor(labels, dtype=torch.int64) + 2**33
    miner = miners.create(name, **options)
    triplets, again = (miner(geometry(len(labels)), classes, generator=stream(seed, "any")) for _ in range(2))
    assert torch.equal(triplets, again)  # type: ignore[arg-type]
    assert triplets.shape[1:] == (2 if name == "n_pair" else 3,)
    assert triplets.dtype == torch.int64
    anchors = triplets[:, 0].tolist()
    assert anchors == sorted(anchors)
    if name in ("softhard", "n_pair"):  # one tuple for every anchor with a positive and a negative
        assert anchors == [a for a, own in enumerate(labels) if 1 < labels.count(own) < len(labels)]
    for a, p, *n in triplets.tolist():
        assert labels[a] == labels[p]
        if not n:
            assert a != p
        elif a == p:
            assert "switch" in options
            assert labels[n[0]] == labels[a]
            assert n[0] != a
        else:
            assert labels[n[0]] != labels[a]


def test_random_of_all_never_draws_a_triplet_twice() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3])
    miner, points, generator = miners.create("random", mode="triplets"), geometry(7), stream(0, "equal")
    for _ in range(50):
        assert len(miner(points, labels, generator=generator).unique(dim=0)) == 7  # type: ignore[union-attr]


def test_switch_leaves_the_other_tuples_as_they_were() -> None:
    plain = miners.create("distance_weighted")(geometry(10), LABELS, generator=stream(0, "switch"))
    switched = miners.create("distance_weighted", switch=0.5)(geometry(10), LABELS, generator=stream(0, "switch"))
    changed = switched[:, 0] == switched[:, 1]
    assert 0 < changed.sum() < len(plain)
    assert torch.equal(plain[~changed], switched[~changed])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("distance_weighted", {"lowr": 0.3}),
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
