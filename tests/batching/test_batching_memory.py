"""The memory of embeddings, and the plan made from it once per epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelfield import batching
from levelfield.errors import BadInput

AWARE = ["d2_coreset", "ddm", "frd", "greedy_coreset"]
LABELS = np.repeat(np.arange(8), 6)
ROWS = np.random.default_rng(0).normal(size=(48, 5)).astype(np.float32)


def make(name="ddm", labels=LABELS, **settings):
    return batching.create(name, labels, **{"batch_size": 8, "pool": 24, **settings})


def test_the_memory_is_a_copy_that_keeps_the_last_row_of_an_image_and_counts_its_age():
    given = np.zeros((48, 2))
    aware = make()
    aware.fill(given)
    given[:] = 7
    for step in range(3):
        aware.observe(np.array([1, 3, 1]), np.full((3, 2), step) + [[0.0], [0.25], [0.5]])
    assert aware.memory[:5, 0].tolist() == [0, 2.5, 0, 2.25, 0]
    assert aware.memory_age == 46 * 3 / 48
    aware.fill(np.ones((48, 2)))
    assert aware.memory_age == 0


@pytest.mark.parametrize(
    ("indices", "rows", "words"),
    [
        ([0, 1], np.ones((2, 4)), "rows of 5 dimensions; the new rows have 4"),
        ([0, 1], np.ones((3, 5)), r"per image of the batch is needed: expected shape \(2, dim\)"),
        ([0, 1], np.full((2, 5), np.nan), "image of the batch 0 contains NaN"),
        ([0, 1], np.array([[1.0] * 5, [np.inf] * 5]), "image of the batch 1 contains NaN or infinity"),
    ],
)
def test_rows_of_another_width_or_without_a_number_are_refused(indices, rows, words):
    aware = make()
    aware.fill(ROWS)
    with pytest.raises(BadInput, match=words):
        aware.observe(np.array(indices), rows)
    assert np.array_equal(aware.memory, ROWS)


def test_a_memory_of_another_length_without_a_number_or_empty_is_refused():
    for rows in (ROWS[:-1], ROWS[0], ROWS[:, :0], np.where(ROWS > 1, np.nan, ROWS)):
        for use in (make().fill, lambda rows: make().plan(0, rows)):
            with pytest.raises(BadInput, match="mbedding"):
                use(rows)
    for use in (lambda: make().plan(0), lambda: make().observe(np.array([0]), np.ones((1, 5)))):
        with pytest.raises(BadInput, match="`fill`"):
            use()


@pytest.mark.parametrize("name", AWARE)
def test_a_plan_is_made_once_an_epoch_and_equals_the_pure_one(name):
    aware = make(name)
    aware.fill(ROWS)
    first = aware.plan(0)
    assert np.array_equal(first, make(name).plan(0, ROWS))
    for step in range(3):
        aware.observe(first[step], ROWS[first[step]] + 3)
    assert np.array_equal(aware.plan(0), first), "the memory has changed, the plan of the epoch has not"
    now = aware.memory.copy()
    assert not np.array_equal(now, ROWS)
    assert np.array_equal(aware.plan(1), make(name).plan(1, now))
    assert not np.array_equal(aware.plan(1), make(name).plan(1, ROWS)), "it was planned from what was learned"


@pytest.mark.parametrize("name", AWARE)
@pytest.mark.parametrize("refresh", ["steps", "epoch", "never"])
def test_resuming_in_the_middle_of_an_epoch_gives_the_same_batches(name, refresh, tmp_path):
    def walk(aware, epochs, stop=None):
        """Batches of these epochs, with a model that drifts; stops after so many."""
        taken = []
        for _ in range(epochs):
            if aware.is_due(aware.epoch):
                aware.fill(ROWS * (1 + aware.epoch))
            for batch in aware:
                drift = np.cos(np.array(batch)[:, None] * np.arange(5) + aware.steps)
                aware.observe(np.array(batch), drift)
                taken.append(batch)
                if len(taken) == stop:
                    return taken
        return taken

    unhurt = make(name, refresh=refresh)
    whole = walk(unhurt, 3)
    struck = make(name, refresh=refresh)
    first = walk(struck, 3, stop=8)
    torch.save(struck.state_dict(), tmp_path / "state")
    again = make(name, refresh=refresh)
    again.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert first + walk(again, 2) == whole
    assert np.array_equal(again.memory, unhurt.memory)
    assert again.memory_age == unhurt.memory_age


def test_a_saved_state_does_not_change_with_the_memory_and_fits_no_other_settings():
    aware = make()
    aware.fill(ROWS)
    aware.plan(0)
    state = aware.state_dict()
    aware.observe(np.arange(8), np.ones((8, 5)))
    assert np.array_equal(state["memory"].numpy(), ROWS)
    for change in ({"pool": 25}, {"refresh": "never"}, {"bins": 7}, {"candidates": 3}):
        with pytest.raises(BadInput, match="other"):
            make(**change).load_state_dict(state)


@pytest.mark.parametrize("name", AWARE)
def test_shares_of_processes_make_up_the_batch_of_one_also_from_their_own_memory(name):
    one = make(name)
    one.fill(ROWS)
    shares = [make(name, rank=rank, world=2) for rank in range(2)]
    for share in shares:
        share.fill(ROWS)
    assert np.array_equal(np.concatenate([share.plan(0) for share in shares], axis=1), one.plan(0))
    shares[1].load_state_dict(shares[0].state_dict())
    assert np.array_equal(shares[1].plan(0), one.plan(0)[:, 4:]), "the state of one process serves all"
