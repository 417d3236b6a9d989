"""Several processes of one run: gradients and training equal those of one process.

One start of the processes does all objectives, so that the tests are quick.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from several import together
from timm.layers import BatchNormAct2d
from torch import Tensor, nn
from training_world import HeadOnly, Stopped, log_of, make

from levelfield import methods, objectives
from levelfield.distributed.ranks import ALONE, Ranks, backend_for
from levelfield.embedder.relation import RelationHead
from levelfield.errors import BadInput, BadSpecification, RunFailed
from levelfield.geometry import gather
from levelfield.methods import Batch
from levelfield.randomness import isolated, stream
from levelfield.testing import CLASSES, DIM, ordinary
from levelfield.training import Divided, Pace

SIZES = (2, 3)
VARIANTS: dict[str, dict[str, Any]] = {name: {} for name in objectives.names()} | {
    "triplet, random tuples": {"miner": "random"},
    "margin, distance weighted": {"miner": "distance_weighted"},
}
Gradients = dict[str, dict[str, Tensor]]


def network() -> nn.Module:
    result = nn.Linear(DIM, DIM).double()
    with torch.no_grad():
        result.weight.copy_(torch.eye(DIM) + 0.1 * torch.randn(DIM, DIM, generator=stream(0, "network")))
        result.bias.zero_()
    return result


def gradients_of_all(ranks: Ranks) -> Gradients:
    """Gradients of every objective and of the network before it; 11 rows, so that shares are unequal."""
    images, labels = (part[:11] for part in ordinary(dtype=torch.float64))
    share, result = ranks.share(len(images)), {}
    for variant, settings in VARIANTS.items():
        objective = objectives.create(variant.partition(",")[0], num_classes=CLASSES, dim=DIM, **settings).double()
        embedder = network()
        trained = [*embedder.parameters(), *objective.parameters()]
        divided = Divided(embedder, ranks=ranks, trained=trained, pieces=2 if variant in ("hist", "margin") else 1)
        for step in range(2):  # a memory is empty in the first
            loss = objective(divided(images[share]), labels, generator=stream(0, "step", step))
            divided.backward(loss)
        divided.sum_gradients()
        named = [*embedder.named_parameters("network"), *objective.named_parameters("objective")]
        result[variant] = {name: p.grad for name, p in named if p.grad is not None} | {"loss": loss.detach()}
    return result


@pytest.mark.parametrize("size", SIZES)
def test_gradients_of_every_objective_equal_those_of_one_process(size: int) -> None:
    expected = gradients_of_all(ALONE)
    for result in together(size, gradients_of_all):
        assert result.keys() == expected.keys()
        for variant, entries in expected.items():
            assert result[variant].keys() == entries.keys(), variant
            for name, value in entries.items():
                message = partial("{}, {}: {}".format, variant, name)
                torch.testing.assert_close(result[variant][name], value, rtol=1e-10, atol=1e-12, msg=message)
    assert any("objective.proxies" in entries for entries in expected.values())  # the factor between both kinds


RUNS: dict[str, dict[str, Any]] = {
    "triplet": {"settings": {"miner": "distance_weighted"}, "steps": 50},
    "proxy_anchor in pieces": {"clip": 1.0, "accumulate": 2, "lr": 0.002},  # its proxies learn 100 times as fast
    "hist": {"select": "recall@1", "validate_every": 6, "lr": 0.002},
    "margin with mixup": {"settings": {"mixup": {"layers": "features"}, "miner": "all"}},
    "normalized_softmax with mixup": {"settings": {"mixup": True}, "cut": "last-1", "trunk_warmup": 2, "steps": 50},
    "contrastive with batches from a memory": {
        "settings": {"batching": "greedy_coreset"},
        "batches_per_epoch": 5,
        "lr": 0.005,
    },
    "contrastive with earlier batches": {"settings": {"memory": 18}},
    "multi_similarity of nested rows": {"settings": {"matryoshka": [4, 8]}},
    "triplet with BatchNorm over the batch": {
        "cut": "last-2",
        "batch_norm": "train",
        "trunk_warmup": 3,  # statistics move, weights do not
        "accumulate": 2,
    },
    "softmax as a student": {"settings": {"student": {"teacher": "big", "form": "relational"}}},
}
STEPS = 12  # of the others
# three processes, with unequal shares, do what sums over them: pieces, scores, statistics, a memory
IN_THREE = (
    "proxy_anchor in pieces",
    "hist",
    "contrastive with earlier batches",
    "triplet with BatchNorm over the batch",
)


def some_steps(ranks: Ranks, folder: Path) -> dict[str, dict[str, Any]]:
    result = {}
    for label in IN_THREE if ranks.size == 3 else RUNS:
        changes = RUNS[label]
        run_folder = folder / f"{label} {ranks.size}"
        shared = {"steps": STEPS, "optimiser": "sgd", "lr": 0.02, "trunk_lr": 0.004, "processes": ranks.size}
        run = make(label.split()[0], ranks=ranks, **{**shared, **changes})
        start = run.embedder.head.linear.weight.detach().clone()
        if run.method.teacher_output:
            run.method.receive_teacher(np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32))
        scores = iter([0.25, 0.5] if ranks.first else [])  # only the first process validates
        validate = (lambda scores=scores: next(scores)) if label == "hist" else None
        state = run.train(run_folder, validate=validate, pace=Pace(log_every=10))
        moved = run.embedder.head.linear.weight - start
        assert moved.abs().max() > 3e-4, f"{label}: far more than the tolerance must have happened"
        result[label] = {
            "weights": run.weights() | {f"own {key}": value for key, value in run.method.named_parameters()},
            "counts": (state.rows_through_trunk, state.memory_rows, state.rows_changed, state.images, state.history),
        }
    return result


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return some_steps(ALONE, tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("size", SIZES)
def test_training_equals_that_of_one_process(size: int, alone: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    results = together(size, some_steps, tmp_path)
    labels = results[0].keys()
    for label in labels:
        expected = alone[label]
        for result in results:
            assert result[label]["counts"] == expected["counts"], label
            for name, value in expected["weights"].items():
                ours, first = (each[label]["weights"][name] for each in (result, results[0]))
                message = partial("{}, {}: {}".format, label, name)
                torch.testing.assert_close(ours, value, rtol=1e-5, atol=1e-5, msg=message)
                assert torch.equal(ours, first), f"{label}, {name}: the processes have different weights"
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert files == sorted(f"{label} {size}/{name}" for label in labels for name in ("checkpoint", "log.jsonl"))


def interrupted(ranks: Ranks, folder: Path, stop: int | None, log: bool = False) -> Any:
    """A run with dropout and BatchNorm over the batch that ends after `stop` steps; its weights."""
    changes = {"cut": "last-1", "batch_norm": "train", "dropout": 0.5, "settings": {"miner": "random"}}
    run = make("triplet", ranks=ranks, steps=6, processes=ranks.size, **changes)

    def after(done: int, steps: int) -> None:
        if done == stop:
            raise Stopped

    try:
        run.train(folder, after_step=after, pace=Pace(log_every=1, save_every_steps=2))
    except Stopped:
        return None
    except BadInput as error:
        return str(error)
    return run.weights()


def test_the_same_number_of_processes_gives_the_same_bits_also_after_an_interruption(tmp_path: Path) -> None:
    whole, again = tmp_path / "whole", tmp_path / "again"
    expected = together(2, interrupted, whole, None)
    assert together(2, interrupted, again, 3) == [None, None]
    assert "written by 2 processes, but this run has 1" in interrupted(ALONE, again, None)
    assert all("Continue with processes: 2" in text for text in together(3, interrupted, again, None))
    for result in together(2, interrupted, again, None):
        for name, value in expected[0].items():
            assert torch.equal(result[name], value), name
    assert [line["loss"] for line in log_of(again)] == [line["loss"] for line in log_of(whole)]


def odds_and_ends(ranks: Ranks) -> dict[str, Any]:
    result: dict[str, Any] = {}
    drop = nn.Dropout(0.5)
    with isolated(0, "masks"):
        result["masks"] = Divided(drop, ranks=ranks)(torch.ones(4, 50))
        result["after"] = torch.rand(1)
    half = torch.randn(5, 3, generator=stream(0, "half")).bfloat16()
    result["bf16"] = torch.equal(ranks.gathered(half[ranks.share(5)], ranks.sizes(5)), half)
    method = methods.create("drml", num_classes=3, dim=8, settings={}, generator=stream(0, "proxies")).double()
    head = RelationHead(10, 8).double().train()
    images, labels = torch.randn(9, 10, dtype=torch.float64, generator=stream(0)), torch.arange(9) // 3
    method.embed = lambda embedder, inputs: embedder(inputs)  # in float64
    divided = Divided(HeadOnly(head), ranks=ranks, trained=[*head.parameters(), *method.parameters()])
    batch = Batch(images[ranks.share(9)], labels, np.arange(9), None, 0, 0)
    divided.backward(sum(method.step(divided, batch, stream(0, "step")).values()))
    divided.sum_gradients()
    result["drml"] = {name: parameter.grad for name, parameter in head.named_parameters()}
    weight = nn.Linear(3, 3).double()  # a loss that also depends on a weight directly
    nn.init.ones_(weight.weight)
    nn.init.zeros_(weight.bias)
    divided = Divided(weight, ranks=ranks, trained=list(weight.parameters()))
    rows = divided(images[ranks.share(9), :3])
    divided.backward(rows.square().mean() + weight.weight.square().sum())
    divided.sum_gradients()
    result["direct"] = weight.weight.grad
    network = normalising_network()
    divided = Divided(network, ranks=ranks, trained=list(network.parameters()))
    maps = 30 + torch.randn(9, 3, 6, 6, dtype=torch.float64, generator=stream(0, "maps"))
    for factor in (1.0, 2.0):  # a mean far from 0, and two updates of the running statistics
        divided.backward((divided(factor * maps[ranks.share(9)]) * images[:, :4]).sum())
    divided.sum_gradients()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    result["batch_norm"] = gradients | dict(network.named_buffers())
    try:
        ranks.check_equal("the weather", float(ranks.rank))
        result["disagree"] = ""
    except RunFailed as error:
        result["disagree"] = str(error)
    return result


def normalising_network() -> nn.Module:
    """BatchNorm of torch and timm, before and after other weights, with and without scale and shift."""
    first, second = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)
    for k, layer in enumerate((first, second)):
        nn.init.normal_(layer.weight, generator=stream(0, "weights", k))
        nn.init.zeros_(layer.bias)
    norms = nn.BatchNorm2d(4), BatchNormAct2d(4), nn.BatchNorm2d(4, affine=False, momentum=None), nn.BatchNorm1d(4)
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(first, norms[0], norms[1], norms[2], pooled, second, norms[3]).double()


def test_random_masks_heads_with_more_outputs_batch_norm_and_losses_of_weights() -> None:
    expected = odds_and_ends(ALONE)
    first, second = together(2, odds_and_ends)
    assert torch.equal(first["masks"], second["masks"])  # of the whole batch
    assert not torch.equal(first["masks"][:4], first["masks"][4:])  # drawn by each process for its own rows
    assert torch.equal(first["after"], second["after"])
    assert [first["bf16"], second["bf16"]] == [True, True]
    for name, value in expected["drml"].items():
        torch.testing.assert_close(second["drml"][name], value, rtol=1e-9, atol=1e-12)
    for name, value in expected["batch_norm"].items():
        torch.testing.assert_close(second["batch_norm"][name], value, rtol=1e-8, atol=1e-10)
        assert torch.equal(first["batch_norm"][name], second["batch_norm"][name]), name
    torch.testing.assert_close(first["direct"], expected["direct"], rtol=1e-12, atol=1e-12)
    assert "disagree on the weather: 0.0 on rank 0, 1.0 on rank 1" in first["disagree"]


def gathered_by_hand(ranks: Ranks, averaged: bool) -> list[Tensor]:
    """The seam in somebody else's loop, with torch's own wrapper or a plain sum; 2 and 3 rows."""
    images, labels = torch.randn(5, DIM, dtype=torch.float64, generator=stream(0)), torch.tensor([0, 0, 1, 1, 1])
    objective = objectives.create("proxy_anchor", num_classes=2, dim=DIM).double()
    plain = network()
    embedder = nn.parallel.DistributedDataParallel(plain) if averaged else plain
    share = slice(0, 2) if ranks.rank == 0 else slice(2, 5)
    share = share if ranks.size > 1 else slice(0, 5)
    rows, all_labels, indices = gather(
        embedder(images[share]), labels[share], torch.arange(5)[share], averaged=averaged
    )
    assert indices.tolist() == list(range(5))
    objective(rows, all_labels).backward()
    if not averaged:
        ranks.summed_([parameter.grad for parameter in plain.parameters()])
    return [parameter.grad for parameter in (*plain.parameters(), *objective.parameters())]


@pytest.mark.parametrize("averaged", [False, True])
def test_gather_gives_both_kinds_of_parameters_their_gradient(averaged: bool) -> None:
    expected = gathered_by_hand(ALONE, False)
    for result in together(2, gathered_by_hand, averaged):
        for entry, value in zip(result, expected, strict=True):
            torch.testing.assert_close(entry, value, rtol=1e-10, atol=1e-12)


def test_nccl_needs_a_gpu_for_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(BadSpecification, match=r"2 GPUs \(NCCL\), but this machine has 0\. Use --device cpu"):
        backend_for("cuda", 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(BadSpecification, match=r"--processes 2, or --device cpu"):
        backend_for("cuda", 4)
    assert backend_for("cuda", 2) == "cpu:gloo,cuda:nccl"


@pytest.mark.parametrize(
    ("device", "deterministic", "other", "equal"),
    [
        ("cpu", False, 1.0, True),
        ("cpu", False, 1.0000001, False),
        ("meta", False, 1.0000001, True),  # in place of a GPU
        ("meta", False, 1.1, False),
        ("meta", True, 1.0000001, False),
    ],
)
def test_equal_bits_are_demanded_where_they_are_promised(
    monkeypatch: pytest.MonkeyPatch, device: str, deterministic: bool, other: float, equal: bool
) -> None:
    values = torch.tensor([1.0, other], dtype=torch.float64).view(torch.int64)
    monkeypatch.setattr(Ranks, "gathered", lambda *_: values)
    monkeypatch.setattr("levelfield.distributed.ranks._device", lambda: device)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)
    with nullcontext() if equal else pytest.raises(RunFailed, match=r"disagree on the loss: 1\.0 on rank 0"):
        Ranks(0, 2).check_equal("the loss", 1.0)
