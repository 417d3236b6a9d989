"""Mixup in the loop: log, declaration, and resuming after an interruption."""

from __future__ import annotations

import pytest
import torch
from training_world import execute_run, log_of, make, make_photos

from levelfield.errors import BadSpecification
from levelfield.training import Pace


class Stopped(Exception):
    pass


@pytest.mark.parametrize("cut", ["frozen", "last-2"])
@pytest.mark.parametrize("name", ["margin", "normalized_softmax"])
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path, cut, name):
    settings = {"mixup": {"alpha": 2}}
    whole = make(name, cut=cut, settings=settings)
    (tmp_path / "whole").mkdir()
    expected = whole.train(tmp_path / "whole")

    def stop(done, steps):
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        make(name, cut=cut, settings=settings).train(
            tmp_path, pace=Pace(log_every=1, save_every_steps=2), after_step=stop
        )
    again = make(name, cut=cut, settings=settings)
    state = again.train(tmp_path)
    assert all(torch.equal(value, again.weights()[key]) for key, value in whole.weights().items())
    assert (state.images, state.rows_changed) == (expected.images, expected.images)
    assert log_of(tmp_path) == log_of(tmp_path / "whole")


def test_mixup_trains_otherwise_than_the_plain_method(tmp_path):
    plain, mixed = make("triplet"), make("triplet", settings={"mixup": True})
    for run, name in ((plain, "plain"), (mixed, "mixed")):
        (tmp_path / name).mkdir()
        run.train(tmp_path / name)
    assert not torch.equal(plain.embedder.head.linear.weight, mixed.embedder.head.linear.weight)
    terms = [entry["terms"].keys() for entry in log_of(tmp_path / "mixed") if "terms" in entry]
    assert {"own", "partners"} in [set(keys) for keys in terms]
    assert "active_own" in log_of(tmp_path / "mixed")[0]


def test_the_ledger_sees_mixed_hidden_states(tmp_path):
    photos = make_photos(tmp_path / "photos")
    for name, mixup, expected in (("plain", False, []), ("mixed", True, ["hidden states changed (kept)"])):
        told = execute_run(photos, tmp_path / name, "triplet", settings={"mixup": mixup}, store=tmp_path / "store")
        texts = [entry["text"] for entry in told["deviations"]]
        assert [text for text in texts if "hidden" in text] == expected


def test_the_log_says_how_many_tuples_were_switched(tmp_path):
    make("triplet", settings={"miner": "random", "switch": 1.0}).train(tmp_path)
    assert [entry["switched"] for entry in log_of(tmp_path)] == [1.0] * 6
    (tmp_path / "plain").mkdir()
    make("triplet", settings={"miner": "random"}).train(tmp_path / "plain")
    assert not any("switched" in entry for entry in log_of(tmp_path / "plain"))


def test_a_batch_in_parts_is_refused(tmp_path):
    with pytest.raises(BadSpecification, match="accumulate"):
        make("normalized_softmax", settings={"mixup": True}, accumulate=2).train(tmp_path)
