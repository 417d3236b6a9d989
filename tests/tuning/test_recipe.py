"""How the recipe for photos divides its time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from levelfield.tuning.recipe_plan import EPOCHS, Amounts, Timing, make_plan, usual_time

BIRDS = Amounts(train=5_864, validation=1_150, test=5_924, batch=60)
TIMING = Timing(step=1.2, trained=128, image=0.012, tested=160)
SIZES = {160: 128, 192: 128, 224: 160}
METHODS = ("proxy_anchor", "multi_similarity", "softmax", "margin", "contrastive", "triplet")


def _plan(minutes: float, *, cores: int = 1, amounts: Amounts = BIRDS):
    return make_plan(60 * minutes, amounts, TIMING, SIZES, METHODS, cores, "20 of 100 training classes")


@pytest.mark.parametrize("minutes", [10, 22, 45, 120, 600])
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_the_last_stage_has_most_of_the_time(minutes: float, cores: int) -> None:
    plan = _plan(minutes, cores=cores)
    assert plan.looking + plan.searching + plan.testing < 0.6 * plan.limit


def test_more_time_or_cores_try_more_and_longer() -> None:
    short, long, wide = _plan(22), _plan(120), _plan(30, cores=8)
    assert long.rungs[0][1] > short.rungs[0][1] == 2
    assert wide.rungs[0][1] > _plan(30).rungs[0][1]
    assert long.rungs[-1][0] > short.rungs[-1][0]
    assert {steps for steps, _ in short.rungs} <= {steps for steps, _ in long.rungs}  # which continue those
    assert _plan(10).sizes == (160,)
    assert _plan(45).sizes == tuple(SIZES)


@pytest.mark.parametrize("minutes", [1, 10, 600])
def test_each_rung_doubles_the_steps_of_half_of_the_methods(minutes: float) -> None:
    rungs = _plan(minutes).rungs
    assert rungs[-1][1] == 1
    for (steps, count), (longer, fewer) in pairwise(rungs):
        assert longer == 2 * steps
        assert fewer == -(-count // 2)


def test_too_little_time_is_said_with_what_it_takes() -> None:
    assert "Even the shortest training makes it about" in _plan(1).lines()[-1]
    assert "shortest" not in " ".join(_plan(10).lines())


def test_few_images_are_not_seen_too_often() -> None:
    few = Amounts(train=160, validation=40, test=200, batch=24)
    assert _plan(600, amounts=few).rungs[-1][0] <= EPOCHS * few.train // few.batch


def test_without_a_limit_the_time_suits_the_photos() -> None:
    few = Amounts(train=160, validation=40, test=200, batch=24)
    assert usual_time(few, TIMING, SIZES, 1) == 300
    assert usual_time(BIRDS, TIMING, SIZES, 1) == 3600
    middle = usual_time(Amounts(1_500, 300, 1_500, 60), TIMING, SIZES, 1)
    assert 600 <= middle <= 2400
    assert middle % 300 == 0
