"""Selection: the best weights are kept, patience ends a run permanently, a plateau lowers the rate."""

from __future__ import annotations

import math

import pytest
import torch
from training_world import conditions, log_of, make

from levelfield.training import Conditions, TrainingState


class Looks:
    """Validation that answers from a list and remembers the weights it saw."""

    def __init__(self, run, values):
        self.run, self.values, self.weights = run, list(values), []

    def __call__(self):
        self.weights.append(self.run.weights())
        return self.values[len(self.weights) - 1]


def equal(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_the_weights_of_the_best_look_are_kept(tmp_path):
    run = make("contrastive", cut="last-1", select="map@r", validate_every=2, steps=7)
    looks = Looks(run, [0.2, 0.6, 0.5, 0.6])
    state = run.train(tmp_path, validate=looks)
    assert (state.best, state.best_step) == (0.6, 4)  # the first of two equal ones
    assert [(entry["step"], entry["value"]) for entry in state.history] == [(2, 0.2), (4, 0.6), (6, 0.5), (7, 0.6)]
    assert equal(run.weights(), looks.weights[1])
    assert not equal(run.weights(), looks.weights[3])


def test_the_start_is_kept_when_no_later_look_is_better(tmp_path):
    settings = {"cut": "last-1", "select": "map@r", "validate_every": 2, "validate_start": True, "patience": 1}
    run = make("margin", steps=8, **settings)
    looks = Looks(run, [0.6, 0.5, 0.6, 0.7])
    state = run.train(tmp_path, validate=looks)
    assert [entry["step"] for entry in state.history] == [0, 2, 4]
    assert (state.best_step, state.step, state.finished) == (0, 4, True)
    assert equal(run.weights(), make("margin", steps=8, **settings).weights())
    assert not equal(looks.weights[0], looks.weights[1])


def test_a_look_before_the_first_step_changes_no_later_weight(tmp_path):
    settings = {"cut": "last-1", "select": "map@r", "validate_every": 2, "steps": 4}
    plain, looked = make("margin", **settings), make("margin", validate_start=True, **settings)
    plain.train(tmp_path, validate=Looks(plain, [0.1, 0.2]))
    looked.train(tmp_path / "looked", validate=Looks(looked, [0.0, 0.1, 0.2]))
    assert equal(plain.weights(), looked.weights())


def test_a_later_look_has_to_gain_min_delta_to_be_chosen():
    state, chosen = TrainingState(), conditions(select="map@r", min_delta=0.1)
    assert [state.record_validation(value, chosen) for value in (0.5, 0.59, 0.61, 0.7)] == [True, False, True, False]
    assert state.best == 0.61


def test_the_objectives_own_parameters_return_to_the_best_look_too(tmp_path):
    run = make("margin", select="map@r", validate_every=1, steps=3, settings={"beta_lr_multiplier": 10.0})
    betas = []

    def validate():
        betas.append(run.method.objective.beta.detach().clone())
        return -float(len(betas))

    run.train(tmp_path, validate=validate)
    assert torch.equal(run.method.objective.beta, betas[0])
    assert not torch.equal(betas[0], betas[2])


def test_patience_ends_the_run_and_a_restart_does_not_go_on(tmp_path):
    run = make("contrastive", select="map@r", validate_every=2, patience=1, steps=20)
    looks = Looks(run, [0.5, 0.4, 0.3])
    state = run.train(tmp_path, validate=looks)
    assert (state.finished, state.step, state.best_step) == (True, 6, 2)
    assert equal(run.weights(), looks.weights[0])

    again = make("contrastive", select="map@r", validate_every=2, patience=1, steps=20)
    before = log_of(tmp_path)
    restarted = again.train(tmp_path, validate=lambda: pytest.fail("a stopped run looked again"))
    assert (restarted.finished, restarted.step) == (True, 6)
    assert equal(again.weights(), looks.weights[0])
    assert log_of(tmp_path) == before


def test_a_plateau_lowers_the_rate_and_patience_ends_the_run():
    chosen = conditions(schedule="plateau", select="map@r", patience=4, plateau_patience=2)
    state, drops = TrainingState(), []
    for value in [0.1, 0.3, 0.2, 0.2, 0.25, 0.31, 0.3, 0.3, 0.3, 0.3]:
        state.record_validation(value, chosen)
        drops.append(state.drops)
        assert not state.finished
    assert drops == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    state.record_validation(0.3, chosen)
    assert state.finished


def test_patience_in_steps_counts_from_the_best_value():
    """MLRC: stop at the first check more than `patience` after the best one."""
    conditions = Conditions(patience="9 steps", validate_every=2)
    state = TrainingState()
    for step, value in [(2, 0.5), (4, 0.4), (6, 0.5), (8, 0.3), (10, 0.2)]:
        state.step = step
        assert state.record_validation(value, conditions) == (step == 2)
        assert not state.finished
    state.step = 12
    state.record_validation(0.1, conditions)
    assert state.finished
    assert state.best_step == 2


def test_a_value_that_is_no_number_is_never_the_best():
    state, chosen = TrainingState(), conditions(patience=1, select="map@r")
    values = (math.nan, 0.2, math.nan, 0.3)
    assert [state.record_validation(value, chosen) for value in values] == [False, True, False, True]
    assert (state.best, state.finished) == (0.3, False)


def test_an_unreadable_patience_is_refused():
    with pytest.raises(ValueError, match="900 steps"):
        Conditions(patience="9 epochs")
    assert Conditions(patience="3").patience == 3
