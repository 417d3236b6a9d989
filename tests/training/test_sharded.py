"""Classes that are divided among processes: loss, gradients and training equal those of the undivided objective."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from several import together
from torch import Tensor
from training_world import log_of, make

from levelfield import methods, objectives
from levelfield.distributed.ranks import ALONE, Ranks
from levelfield.errors import BadSpecification, UnknownName
from levelfield.objectives import ShardedClasses, _sharded
from levelfield.objectives._parts import class_scores
from levelfield.objectives._sharded import SHARDED
from levelfield.randomness import stream
from levelfield.training import Pace, checkpoint
from levelfield.training.shards import Shards

CLASSES, DIM = 11, 6
VARIANTS: dict[str, dict[str, Any]] = {name: {} for name in _sharded.SHARDED} | {
    "proxy_nca, true class included": {"include_true": True},
    "arcface, plain": {"beyond_pi": "plain", "margin": 0.3},
}


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Rows, labels, and the vectors of all classes; some classes have no image."""
    drawn = stream(0, "batch")
    rows = torch.randn(7, DIM, dtype=torch.float64, generator=drawn)
    return rows, torch.tensor([0, 0, 3, 10, 10, 4, 6]), torch.randn(CLASSES, DIM, dtype=torch.float64, generator=drawn)


def sharded(ranks: Ranks, variant: str, sample: float = 1.0) -> tuple[ShardedClasses, Tensor]:
    settings = VARIANTS[variant]
    loss = ShardedClasses(
        variant.partition(",")[0], num_classes=CLASSES, dim=DIM, ranks=ranks, sample=sample, **settings
    ).double()
    vectors = batch()[2]
    with torch.no_grad():
        loss.proxies.copy_(vectors[loss.local_classes])
    return loss, vectors


def results(ranks: Ranks) -> dict[str, list[Tensor]]:
    class_scores.AT_ONCE = 3  # several chunks
    rows, labels, _ = batch()
    result = {}
    for variant in VARIANTS:
        loss, _ = sharded(ranks, variant)
        leaf = rows.clone().requires_grad_()
        value = loss(leaf, labels)
        value.backward()
        result[variant] = [value.detach(), leaf.grad, loss.proxies.grad]
    return result


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_loss_over_divided_classes_is_that_of_all(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_scores, "AT_ONCE", 3)
    parts = [results(ALONE)] if size == 1 else together(size, results)
    rows, labels, vectors = batch()
    for variant, settings in VARIANTS.items():
        whole = objectives.create(variant.partition(",")[0], num_classes=CLASSES, dim=DIM, **settings).double()
        with torch.no_grad():
            whole.proxies.copy_(vectors)
        leaf = rows.clone().requires_grad_()
        value = whole(leaf, labels)
        value.backward()
        for part in parts:
            torch.testing.assert_close(part[variant][0], value.detach(), rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(part[variant][1], leaf.grad, rtol=1e-9, atol=1e-11)
        of_classes = torch.cat([part[variant][2] for part in parts])
        torch.testing.assert_close(of_classes, whole.proxies.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", _sharded.SHARDED)
def test_a_sample_of_the_classes_has_those_of_the_batch_and_as_many_others_as_asked(name: str) -> None:
    rows, labels, vectors = batch()
    loss, _ = sharded(ALONE, name, sample=0.5)
    first, again, other = (loss(rows, labels, generator=stream(0, "step", step)) for step in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    loss(rows, labels, generator=stream(0, "step", 0)).backward()
    compared = loss.proxies.grad.abs().sum(1) > 0
    assert compared[labels].all()
    assert 5 <= compared.sum() < CLASSES
    some = objectives.create(name, num_classes=int(compared.sum()), dim=DIM).double()  # the loss over those alone
    with torch.no_grad():
        some.proxies.copy_(vectors[compared])
    renamed = compared.cumsum(0)[labels] - 1
    torch.testing.assert_close(some(rows, renamed), first, rtol=1e-10, atol=1e-12)


def test_what_cannot_be_divided_is_refused_with_what_can() -> None:
    with pytest.raises(UnknownName, match=r"cosface"):
        ShardedClasses("cosfacee", num_classes=5, dim=2)
    with pytest.raises(BadSpecification, match="'label_smoothing': set it to 0"):
        ShardedClasses("normalized_softmax", num_classes=5, dim=2, label_smoothing=0.1)
    with pytest.raises(BadSpecification, match="2 classes cannot be divided among 3 processes"):
        ShardedClasses("cosface", num_classes=2, dim=2, ranks=Ranks(0, 3))


def test_scores_of_all_classes_are_never_in_memory_at_once() -> None:
    """No tensor of the graph is as large as rows x classes."""
    loss = ShardedClasses("normalized_softmax", num_classes=50_000, dim=4)
    rows = torch.randn(64, 4, requires_grad=True)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda saved: sizes.append(saved.numel()) or saved, lambda saved: saved
    ):
        loss(rows, torch.arange(64)).backward()
    assert max(sizes) <= max(50_000 * 4, 64 * class_scores.AT_ONCE)


RUNS: dict[str, dict[str, Any]] = {
    "arcface": {"accumulate": 2},
    "cosface": {"clip": 1.0},
    "normalized_softmax": {"select": "recall@1", "validate_every": 4},  # ends with the best step
    "proxy_anchor": {"accumulate": 2},
    "proxy_nca": {},
}
SAMPLED = {"cosface": {"settings": {"sharded": {"sample": 0.3}}}}


def some_steps(ranks: Ranks, folder: Path, settings: dict[str, Any], runs: dict[str, Any]) -> dict[str, Any]:
    """Weights of the network, and the proxies of all classes on the first process."""
    result = {}
    for label, changes in runs.items():
        run_folder = folder / f"{label} {ranks.size}"
        shared = {"steps": 10, "optimiser": "sgd", "lr": 0.002, "processes": ranks.size, "settings": settings}
        run = make(label, ranks=ranks, **{**shared, **changes})
        start = run.embedder.head.linear.weight.detach().clone()
        scores = iter([0.25, 0.5, 0.1])
        run.train(run_folder, validate=lambda scores=scores: next(scores) if ranks.first else 0.0)
        assert (run.embedder.head.linear.weight - start).abs().max() > 3e-4, label
        state = Shards(run.method, ranks).whole(run.method.state_dict())
        proxies = next(value for name, value in state.items() if name.endswith("proxies"))
        norms = [line.get("norm") for line in log_of(run_folder)]
        result[label] = run.weights() | {"proxies": proxies, "norms": torch.tensor([norm or 0.0 for norm in norms])}
    return result


def compare(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for label, weights in expected.items():
        for name, value in weights.items():
            message = partial("{}, {}: {}".format, label, name)
            torch.testing.assert_close(found[label][name], value, rtol=1e-5, atol=1e-5, msg=message)


def test_training_equals_that_of_the_undivided_objective(tmp_path: Path) -> None:
    expected = some_steps(ALONE, tmp_path / "undivided", {}, RUNS)
    compare(some_steps(ALONE, tmp_path / "alone", {"sharded": True}, RUNS), expected)
    results = together(2, some_steps, tmp_path / "two", {"sharded": True}, RUNS)
    compare(results[0], expected)
    assert [len(part["cosface"]["proxies"]) for part in results] == [6, 3]  # all classes, and the second alone's own
    assert {*RUNS} == {*SHARDED}


def test_a_sample_of_the_classes_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    alone = some_steps(ALONE, tmp_path, {}, SAMPLED)
    two = together(2, some_steps, tmp_path, {}, SAMPLED)
    compare(two[0], alone)


def killed(ranks: Ranks, folder: Path, stop: int | None) -> dict[str, Tensor] | str:
    """A run with moments, a best step and a sample; its second process kills itself after `stop` steps."""
    conditions = {"optimiser": "adamw", "select": "recall@1", "validate_every": 2, "processes": ranks.size}
    run = make("cosface", ranks=ranks, steps=6, settings={"sharded": {"sample": 0.3}}, **conditions)

    def after(done: int, steps: int) -> None:
        if done == stop and ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    state = run.train(
        folder,
        after_step=after,
        validate=lambda: float(not (folder / "checkpoint").exists()),  # the best step is before the interruption
        pace=Pace(log_every=1, save_every_steps=2),
    )
    return run.weights() | dict(run.method.named_parameters()) | {"sample": torch.tensor(state.class_sample)}


def test_a_killed_process_and_a_resumed_run_give_the_same_bits(tmp_path: Path) -> None:
    expected = together(2, killed, tmp_path / "whole", None)
    with pytest.raises(AssertionError, match="ended without an answer"):
        together(2, killed, tmp_path / "again", 5)
    saved = checkpoint.load(tmp_path / "again" / "checkpoint")
    assert saved["progress"]["step"] == 4
    moments = [kept["exp_avg"].shape for kept in saved["optimisers"][0]["state"].values()]
    assert saved["weights"]["method"]["objective._objective.proxies"].shape == moments[-1] == (6, 8)
    for rank, result in enumerate(together(2, killed, tmp_path / "again", None)):
        assert result["sample"].item() == pytest.approx(2 / 6)
        for name, value in expected[rank].items():
            assert torch.equal(result[name], value), name
    losses = [[line["loss"] for line in log_of(tmp_path / name)] for name in ("whole", "again")]
    assert losses[0] == losses[1]


def test_what_cannot_be_sharded_is_refused_with_what_can() -> None:
    for name in ("triplet", "soft_triple"):
        with pytest.raises(BadSpecification, match=f"'{name}' has no 'sharded': only {', '.join(SHARDED)} can"):
            methods.create(name, num_classes=4, dim=8, sharded=True)
    with pytest.raises(BadSpecification, match=r"sharded: 0.1; expected true, or .*\{sample: 0.1\}"):
        methods.create("cosface", num_classes=4, dim=8, sharded=0.1)
    with pytest.raises(BadSpecification, match=r"'sharded' has no setting 'smple'\. Did you mean 'sample'"):
        methods.create("cosface", num_classes=4, dim=8, sharded={"smple": 0.1})
    with pytest.raises(BadSpecification, match="'mixup' and 'sharded' cannot be combined: a mixed image has two"):
        methods.create("cosface", num_classes=4, dim=8, sharded=True, mixup=True)
    assert type(methods.create("cosface", num_classes=4, dim=8, sharded=False).objective).__name__ == "CosFace"
