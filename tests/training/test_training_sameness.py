"""The same training with and without the cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training_world import execute_run, log_of

STEPS = {"cut": "last-1", "steps": 6, "batches_per_epoch": 4, "lr": 0.01, "trunk_lr": 0.01, "schedule": "constant"}


def weights(folder):
    return load_file(folder / "model.safetensors")


def moved(first, second):
    """Largest difference of a weight."""
    return max((first[name].double() - second[name].double()).abs().max().item() for name in first)


@pytest.mark.parametrize(
    "views",
    [{}, {"augment": "light", "views": 1}, {"augment": "light", "views": 3}, {"augment": "standard", "views": 2}],
    ids=lambda v: f"{v.get('views', 1)} {v.get('augment', 'plain')}",
)
def test_training_with_the_cache_equals_training_without_it_to_rounding(
    training_photos, training_cache, tmp_path, views
):
    for cached in (True, False):
        execute_run(
            training_photos,
            tmp_path / str(cached),
            "contrastive",
            settings={"miner": "all"},  # a random miner turns a difference in the last bit into another tuple
            store=training_cache if cached else tmp_path / "none",
            **{**STEPS, **views, "cache": cached},
        )
    first, second = weights(tmp_path / "True"), weights(tmp_path / "False")
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    one, other = (np.load(tmp_path / kind / "embeddings.npy") for kind in ("True", "False"))
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    losses = [[entry["loss"] for entry in log_of(tmp_path / kind)] for kind in ("True", "False")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    execute_run(training_photos, tmp_path / "start", "start", store=training_cache, **STEPS)
    assert moved(first, weights(tmp_path / "start")) > 1e-2  # far more than the tolerance above
