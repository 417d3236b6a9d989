"""Training above the cut: trunk warm-up, BatchNorm modes, checkpoints without the frozen part."""

from __future__ import annotations

import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from training_world import log_of, make

from levelfield.training import Pace, checkpoint
from levelfield.training.checkpoint import Checkpointer


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


def test_a_run_interrupted_while_the_trunk_rests_goes_on_as_if_it_had_not_been(tmp_path):
    whole = make("margin", cut="last-1", steps=4, trunk_warmup=2, batch_norm="train")
    (tmp_path / "whole").mkdir()
    whole.train(tmp_path / "whole")
    stop_at(make("margin", cut="last-1", steps=4, trunk_warmup=2, batch_norm="train"), 1, tmp_path)
    again = make("margin", cut="last-1", steps=4, trunk_warmup=2, batch_norm="train")
    again.train(tmp_path)
    assert not changed(whole.weights(), again.weights())


class Stopped(Exception):
    pass


def stop_at(run, step, folder):
    """Train with a checkpoint at each step and stop after `step`."""

    def stop(done, steps):
        if done == step:
            raise Stopped

    with pytest.raises(Stopped):
        run.train(folder, pace=Pace(log_every=1, save_every_steps=1), after_step=stop)


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

        (tmp_path / mode).mkdir()
        run.train(tmp_path / mode, validate=validate)
        moved = changed(seen[1], seen[2])
        assert any("running_mean" in name for name in moved) is (mode == "train")
        assert "head.linear.weight" in moved


def test_a_validated_run_trains_the_same_weights_as_one_without_a_look(tmp_path):
    results = []
    for number, validate in enumerate((None, lambda: 0.0)):
        run = make("margin", cut="last-1", dropout=0.3, steps=4, validate_every=1)
        last = {}
        (tmp_path / str(number)).mkdir()
        run.train(tmp_path / str(number), validate=validate, after_step=lambda *_, r=run, d=last: d.update(r.weights()))
        results.append(last)
    assert not changed(*results)


@pytest.mark.parametrize("cut", ["frozen", "last-1", "last-2"])
def test_a_checkpoint_holds_nothing_of_what_lies_below_the_cut(tmp_path, cut):
    run = make("margin", cut=cut, steps=1)
    run.train(tmp_path)
    saved = checkpoint.load(tmp_path / "checkpoint")
    names = set(saved["weights"]["embedder"])
    everything = set(run.embedder.state_dict())
    kept = {n for n in everything if not n.startswith(tuple(f"trunk.{p}" for p in run.embedder.trunk.frozen_prefixes))}
    assert names == kept
    assert any(name.startswith("trunk.") for name in names) is (cut != "frozen")
    assert any(name.startswith("trunk.") for name in everything - names)
    assert saved["progress"]["step"] == 1
    assert "objective.beta" in saved["weights"]["method"]


def test_a_checkpoint_brings_back_weights_optimisers_and_progress(tmp_path):
    run = make("margin", cut="last-1", steps=2)
    told = run.train(tmp_path)
    other = make("margin", cut="last-1", steps=2, seed=1)
    state, _ = Checkpointer(other.embedder, other.method, other.optimisers).resume(tmp_path / "checkpoint")
    assert state == told
    assert not changed(run.weights(), other.weights())
    assert torch.equal(run.method.objective.beta, other.method.objective.beta)
    for ours, theirs in zip(run.optimisers, other.optimisers, strict=True):
        first, second = ours.state_dict()["state"], theirs.state_dict()["state"]
        assert first.keys() == second.keys()
        assert all(torch.equal(first[k][name], second[k][name]) for k in first for name in first[k])


@pytest.mark.parametrize("stop", [1, 3, 4, 5])
def test_a_run_stopped_after_any_step_ends_with_the_same_bits(tmp_path, stop):
    settings = {"cut": "last-1", "dropout": 0.2, "batch_norm": "train", "select": "map@r", "validate_every": 2}

    def looking(run):
        return lambda: -run.embedder.head.linear.weight.abs().sum().item()

    whole = make("margin", **settings)
    (tmp_path / "whole").mkdir()
    expected = whole.train(tmp_path / "whole", validate=looking(whole))
    first = make("margin", **settings)

    def strike(done, steps):
        if done == stop:
            raise Stopped

    with pytest.raises(Stopped):
        first.train(tmp_path, pace=Pace(log_every=1, save_every_steps=2), after_step=strike, validate=looking(first))
    again = make("margin", **settings)
    state = again.train(tmp_path, validate=looking(again))
    assert not changed(whole.weights(), again.weights())
    for key in ("step", "images", "rows_through_trunk", "idle_batches", "best", "best_step", "history"):
        assert getattr(state, key) == getattr(expected, key), key
    assert log_of(tmp_path) == log_of(tmp_path / "whole")
