"""A cross-batch memory in the loop: it is declared, changes the training, and survives an interruption."""

from __future__ import annotations

import pytest
import torch
from training_world import SMALL, execute_run, log_of, make, make_photos

from levelfield.errors import BadInput, BadSpecification
from levelfield.studies import parse_study, resolve
from levelfield.training import Pace


class Stopped(Exception):
    pass


@pytest.mark.parametrize(("name", "cut"), [("margin", "frozen"), ("contrastive", "last-2")])
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path, name, cut):
    settings = {"memory": {"size": 14, "start": 1}}
    whole = make(name, cut=cut, settings=settings)
    (tmp_path / "whole").mkdir()
    whole.train(tmp_path / "whole")

    def stop(done, steps):
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        make(name, cut=cut, settings=settings).train(
            tmp_path, pace=Pace(log_every=1, save_every_steps=2), after_step=stop
        )
    again = make(name, cut=cut, settings=settings)
    again.train(tmp_path)
    assert all(torch.equal(value, again.weights()[key]) for key, value in whole.weights().items())
    assert torch.equal(whole.method.objective.rows, again.method.objective.rows)
    assert log_of(tmp_path) == log_of(tmp_path / "whole")


def test_a_memory_trains_otherwise_than_the_plain_method(tmp_path):
    made = [make("contrastive", settings={"miner": "all", "memory": memory}) for memory in (False, 12)]
    for run, name in zip(made, ("plain", "remembering"), strict=True):
        (tmp_path / name).mkdir()
        run.train(tmp_path / name)
    plain, remembering = (run.embedder.head.linear.weight for run in made)
    assert not torch.equal(plain, remembering)
    active = [[entry["active"] for entry in log_of(tmp_path / name)] for name in ("plain", "remembering")]
    assert active[0][0] == active[1][0]  # nothing is older than the first batch
    assert active[0][1] < active[1][1]


def test_the_ledger_declares_the_numbers_that_the_memory_holds(tmp_path):
    photos = make_photos(tmp_path / "photos")
    for memory, expected in ((False, []), (12, [f"learned buffers {12 * 8 + 12 + 2}"])):
        told = execute_run(
            photos, tmp_path / f"{memory}", "contrastive", settings={"memory": memory}, store=tmp_path / "store"
        )
        texts = [entry["text"] for entry in told["deviations"]]
        assert [text for text in texts if "buffers" in text] == expected


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("proxy_anchor", {"memory": 12}, "cannot be combined with 'proxy_anchor'"),
        ("contrastive", {"memory": {"sise": 12}}, "Did you mean 'size'"),
        ("contrastive", {"memory": "large"}, "size"),
        ("contrastive", {"memory": 12, "mixup": True}, "cannot be combined"),
        ("contrastive", {"memry": 12}, "Did you mean 'memory'"),
    ],
)
def test_a_memory_that_cannot_be_is_refused_before_anything_runs(name, settings, said):
    with pytest.raises(BadSpecification, match=said):
        make(name, settings=settings)


def test_a_memory_smaller_than_the_batch_is_refused_before_anything_runs(tmp_path):
    study = {"data": str(make_photos(tmp_path / "photos")), "conditions": {**SMALL, "batch": "2x2"}, "seeds": 1}
    with pytest.raises(BadInput, match="Method 'contrastive': A memory of 3 rows got a batch of 4"):
        resolve(parse_study({**study, "methods": [{"contrastive": {"memory": 3}}]}))
