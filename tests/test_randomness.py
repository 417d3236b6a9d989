"""Named streams, and restoring of the global generators."""

from __future__ import annotations

import random

import numpy as np
import torch

from levelfield.randomness import isolated, seed_globals, stream


def draw() -> tuple[float, float, float]:
    return torch.rand(1).item(), float(np.random.rand()), random.random()  # noqa: NPY002


def test_isolated_names_all_global_generators_and_puts_them_back() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    with isolated(0, "step", 3):
        first = draw()
    with isolated(0, "step", 3):
        assert draw() == first
    with isolated(0, "step", 4):
        assert all(a != b for a, b in zip(draw(), first, strict=True))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert before[2] == random.getstate()


def test_seeding_inside_gives_the_same_numbers_whatever_was_drawn_before() -> None:
    with isolated(1, "run"):
        seed_globals(1, "global", 5)
        first = draw()
        draw()
        seed_globals(1, "global", 5)
        assert draw() == first


def test_names_of_another_kind_are_other_names() -> None:
    different = [(1,), ("1",), (1, 1), (11,), ("a", "b"), ("ab",)]
    numbers = {torch.rand(1, generator=stream(0, *names)).item() for names in different}
    assert len(numbers) == len(different)
