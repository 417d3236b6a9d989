"""Training above the cut: trunk warm-up, BatchNorm modes, checkpoints without the frozen part."""

from __future__ import annotations

import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from training_world import make


def batch_norms(run):
    """Names in `state_dict` of the BatchNorm layers above the cut."""
    below = run.embedder.trunk.frozen_prefixes
    return [
        f"trunk.{name}"
        for name, module in run.embedder.trunk.named_modules()
        if isinstance(module, _BatchNorm) and not f"{name}.".startswith(below)
    ]


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize(("optimiser", "batch_norm"), [("adamw", "train"), ("sgd", "statistics")])
def test_a_resting_trunk_keeps_its_weights_and_its_optimiser_state_empty(tmp_path, optimiser, batch_norm):
    """BatchNorm follows the conditions while the trunk rests: with `train` its statistics move."""
    run = make("margin", cut="last-1", steps=3, trunk_warmup=3, batch_norm=batch_norm, optimiser=optimiser)
    before = run.weights()
    run.train(tmp_path)
    moved = changed(before, run.weights())
    statistics = {
        name for name in moved if name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert moved - statistics == {"head.linear.weight", "head.linear.bias"}
    assert bool(statistics) == (batch_norm == "train")
    trunk = set(map(id, run.groups()["trunk"]["params"]))
    assert not any(id(parameter) in trunk for stepper in run.optimisers for parameter in stepper.state)


def test_after_its_rest_the_trunk_trains_as_if_it_had_just_begun(tmp_path):
    run = make("contrastive", cut="last-1", steps=3, trunk_warmup=2)
    before = run.weights()
    run.train(tmp_path)
    assert any(name.startswith("trunk.") for name in changed(before, run.weights()))
    [optimiser] = run.optimisers
    steps = {name: {int(optimiser.state[p]["step"]) for p in group["params"]} for name, group in run.groups().items()}
    assert steps == {"trunk": {1}, "head": {3}}


@pytest.mark.parametrize("mode", ["frozen", "statistics", "train"])
def test_batch_norm_does_over_training_what_its_name_says(tmp_path, mode):
    run = make("contrastive", cut="last-1", batch_norm=mode, steps=3, trunk_lr=0.01)
    norms = batch_norms(run)
    assert norms
    before = run.weights()
    run.train(tmp_path)
    moved = changed(before, run.weights())
    affine = {f"{name}.{part}" for name in norms for part in ("weight", "bias")}
    statistics = {f"{name}.{part}" for name in norms for part in ("running_mean", "running_var")}
    assert (affine & moved == set()) if mode == "frozen" else (affine <= moved)
    assert (statistics <= moved) if mode == "train" else (statistics & moved == set())
    others = {n for n in moved if n.startswith("trunk.")} - affine - statistics
    assert any(name.endswith("weight") for name in others)  # the convolutions train in every mode
    assert not any(name.startswith(tuple(f"trunk.{p}" for p in run.embedder.trunk.frozen_prefixes)) for name in moved)


def test_batch_norm_stays_as_named_after_a_look_at_the_validation_classes(tmp_path):
    for mode in ("statistics", "train"):
        run = make("contrastive", cut="last-1", batch_norm=mode, steps=4, select="map@r", validate_every=1)
        seen = []

        def validate(run=run, seen=seen):
            run.embedder.eval()
            seen.append(run.weights())
            return float(len(seen))

        run.train(tmp_path / mode, validate=validate)
        moved = changed(seen[1], seen[2])
        assert any("running_mean" in name for name in moved) is (mode == "train")
        assert "head.linear.weight" in moved


def test_a_validated_run_trains_the_same_weights_as_one_without_a_look(tmp_path):
    results = []
    for number, validate in enumerate((None, lambda: 0.0)):
        run = make("margin", cut="last-1", dropout=0.3, steps=4, validate_every=1)
        last = {}
        run.train(tmp_path / str(number), validate=validate, after_step=lambda *_, r=run, d=last: d.update(r.weights()))
        results.append(last)
    assert not changed(*results)
