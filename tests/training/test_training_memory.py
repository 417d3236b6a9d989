"""A batching with a memory in the loop: filling, updates, cost, and resuming."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional
from training_world import EPOCH, LABELS, Told, execute_run, log_of, stored, with_memory

from levelfield.batching import DistanceMatching
from levelfield.errors import BadInput

STEPS = 12


def test_the_memory_is_filled_once_before_the_first_batch_in_evaluation_mode(tmp_path):
    run, passes = with_memory(dropout=0.5, steps=EPOCH)
    expected = functional.normalize(run.embedder.embed(stored("frozen")), dim=1).numpy()
    fresh = DistanceMatching(LABELS, batch_size=6, pool=12, batches_per_epoch=EPOCH).plan(0, expected)
    run.train(tmp_path)
    assert len(passes) == 1
    assert np.array_equal(run.feed.batching.plan(0), fresh)


@pytest.mark.parametrize(("refresh", "fills"), [("steps", 1), ("epoch", 3), ("never", 1)])
def test_refresh_decides_who_renews_the_rows_and_how_old_they_grow(tmp_path, refresh, fills):
    run, passes = with_memory(refresh=refresh)
    state = run.train(tmp_path)
    assert len(passes) == fills
    assert state.memory_rows == 32 * fills  # 30 images in blocks of 16
    assert state.rows_through_trunk == STEPS * 6 + state.memory_rows
    ages = [entry["memory_age"] for entry in log_of(tmp_path)]
    if refresh == "steps":
        assert 0 < ages[-1] < STEPS
        assert ages[0] == pytest.approx(24 / 30)  # six of thirty rows were written
    else:
        assert ages == [1 + step % EPOCH if refresh == "epoch" else 1 + step for step in range(STEPS)]


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_memory_is_told_what_the_loss_saw(tmp_path, unit, parts):
    seen = []

    def remember(rows, batch):
        seen.append((batch.indices, rows.detach().clone()))
        return rows.square().mean()

    run, _ = with_memory(Told(remember, separable=True), unit=unit, accumulate=parts, dropout=0.3)
    run.train(tmp_path)
    memory = run.feed.batching.memory
    latest = {int(index): row for indices, rows in seen for index, row in zip(indices, rows, strict=True)}
    assert len(latest) > 20
    for index, row in latest.items():
        expected = functional.normalize(row, dim=0) if unit else row
        torch.testing.assert_close(torch.from_numpy(memory[index]), expected, rtol=1e-6, atol=1e-7)


def test_the_trunk_rests_on_after_the_memory_was_filled(tmp_path):
    rests = []

    def look(rows, batch):
        rests.append(not run.embedder.trunk.trainable())
        return rows.square().mean()

    run, passes = with_memory(Told(look), refresh="epoch", cut="last-1", trunk_warmup=8)
    run.train(tmp_path)
    assert len(passes) == 3
    assert rests == [True] * 8 + [False] * 4


def test_without_a_pass_over_all_images_there_is_no_plan(tmp_path):
    run, _ = with_memory(embed=False)
    with pytest.raises(BadInput, match=r"Batching 'ddm' .*`embed`"):
        run.train(tmp_path)


def test_a_step_without_embeddings_is_refused(tmp_path):
    class Blind(Told):
        def step(self, embedder, batch, generator):
            return {"loss": embedder.head.linear.weight.sum()}

    run, _ = with_memory(Blind(None))
    with pytest.raises(BadInput, match="returned no embedding"):
        run.train(tmp_path)


@pytest.mark.parametrize("name", ["ddm", "frd", "greedy_coreset", "d2_coreset"])
def test_a_run_of_a_study_fills_the_memory_and_says_so(training_photos, training_cache, tmp_path, name):
    settings = {"batching": {name: {"pool": 12}}}
    ended = execute_run(training_photos, tmp_path, settings=settings, store=training_cache, batches_per_epoch=4)
    texts = [deviation["text"] for deviation in ended["deviations"]]
    assert f"batching {name} (pool=12) (spc)" in texts
    rows = ended["summary"]["memory_rows"]
    assert rows > 0
    assert f"memory rows {rows}" in texts
    assert not any("trunk passes" in text for text in texts)
    assert ended["summary"]["planning"] > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_loader_workers_change_nothing(training_photos, training_cache, tmp_path, workers, monkeypatch):
    """They fetch ahead, but never beyond an epoch's end: its last steps still change the memory."""
    monkeypatch.setattr("levelfield.data.decoders.TINY", 0)
    common = {"augment": "light", "views": 0, "cache": False, "settings": {"batching": {"ddm": {"pool": 12}}}}
    common |= {"batches_per_epoch": 3, "steps": 8, "lr": 0.03, "dropout": 0.2}
    for count in (0, workers):
        execute_run(training_photos, tmp_path / str(count), store=training_cache, workers=count, **common)
    embeddings = [(tmp_path / str(count) / "embeddings.npy").read_bytes() for count in (0, workers)]
    assert embeddings[0] == embeddings[1]
    assert log_of(tmp_path / "0") == log_of(tmp_path / str(workers))
