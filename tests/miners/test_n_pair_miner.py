from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from levelfield import miners
from levelfield.geometry import Geometry
from levelfield.randomness import stream

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])


def mined(labels: Tensor, generator: torch.Generator) -> Tensor:
    pairs = miners.create("n_pair")(Geometry(torch.zeros(len(labels), 2), normalize=False), labels, generator=generator)
    assert isinstance(pairs, Tensor)
    return pairs


@settings(max_examples=50, deadline=None)
@given(labels=st.lists(st.integers(0, 4), max_size=12), seed=st.integers(0, 99))
def test_one_pair_for_every_anchor_with_a_positive_and_a_negative(labels: list[int], seed: int) -> None:
    pairs = mined(torch.tensor(labels, dtype=torch.int64) + 2**33, stream(seed, "any"))
    assert pairs.dtype == torch.int64
    usable = [a for a, own in enumerate(labels) if 1 < labels.count(own) < len(labels)]
    assert pairs.shape == (len(usable), 2)
    assert pairs[:, 0].tolist() == usable
    assert all(a != p and labels[a] == labels[p] for a, p in pairs.tolist())


def test_frequencies_match_the_stated_law() -> None:
    law = (
        miners.create("n_pair")
        .probabilities(  # type: ignore[attr-defined]
            Geometry(torch.zeros(10, 2, dtype=torch.float64), normalize=False), LABELS
        )["positive"]
        .numpy()
    )
    generator, seen, draws = stream(0, "draws"), np.zeros((10, 10)), 600
    for _ in range(draws):
        anchor, positive = mined(LABELS, generator).numpy().T
        seen[anchor, positive] += 1
    assert not seen[law == 0].any()
    for row, theory in zip(seen, law * draws, strict=True):
        if (theory > 0).sum() > 1:
            assert stats.chisquare(row[theory > 0], theory[theory > 0]).pvalue > 1e-5


def test_negatives_are_all_negatives_and_none_for_an_anchor_left_out() -> None:
    negatives = miners.create("n_pair").probabilities(  # type: ignore[attr-defined]
        Geometry(torch.zeros(10, 2), normalize=False), LABELS
    )["negatives"]
    wanted = (LABELS[:, None] != LABELS[None, :]).long()
    wanted[9] = 0  # alone in its class
    assert torch.equal(negatives, wanted)


def test_same_generator_same_pairs_and_no_global_chance() -> None:
    before = torch.get_rng_state()
    first, second = (mined(LABELS, stream(5, "same")) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())
