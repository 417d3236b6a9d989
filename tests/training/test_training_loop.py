"""The loop: refusals, counts, gradient accumulation and clipping."""

from __future__ import annotations

import math
import time

import pytest
import torch
from torch import nn
from training_world import Told, log_of, make

from levelfield.errors import BadSpecification, RunFailed
from levelfield.training import Pace


def pull(rows, batch):
    return rows.square().mean()


def test_training_lowers_the_loss_and_ends_in_eval_mode(tmp_path):
    run = make("normalized_softmax", steps=30, lr=0.03)
    state = run.train(tmp_path)
    losses = [entry["loss"] for entry in log_of(tmp_path)]
    assert losses[-1] < 0.8 * losses[0]
    assert (state.step, state.images, state.rows_through_trunk) == (30, 30 * 6, 30 * 6)
    assert not run.embedder.training


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_log_shows_the_terms_of_the_loss_where_there_are_several(tmp_path, accumulate):
    settings = {"centers_per_class": 2}  # separable, and of two terms
    make("soft_triple", steps=3, accumulate=accumulate, settings=settings).train(tmp_path, pace=Pace(log_every=1))
    for entry in log_of(tmp_path):
        assert list(entry["terms"]) == ["classification", "regularizer"]
        assert sum(entry["terms"].values()) == pytest.approx(entry["loss"], rel=1e-5)


def test_the_log_shows_the_terms_that_a_step_gives_and_of_one_term_nothing_but_the_loss(tmp_path):
    def two_terms(rows, batch):
        return {"norm": rows.square().mean(), "step": rows.sum() * 0}

    for name, step in {"two": two_terms, "one": pull}.items():
        make(Told(step), steps=2, clip=1.0).train(tmp_path / name)
    several, single = log_of(tmp_path / "two")[0], log_of(tmp_path / "one")[0]
    assert several["terms"] == {"norm": pytest.approx(several["loss"]), "step": 0.0}
    assert several["step"] == 0
    assert "terms" not in single


def test_the_global_random_stream_is_as_it_was_before(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    make("margin", dropout=0.3, steps=2).train(tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_the_run_before_its_step_and_names_the_images(tmp_path, bad):
    def explode(rows, batch):
        return rows.sum() * (bad if batch.step == 2 else 1.0)

    run = make(Told(explode))
    run.feed.names = [f"photo{i}.png" for i in range(30)]
    third = run.feed.batching.plan(0)[2]
    with pytest.raises(RunFailed) as caught:
        run.train(tmp_path)
    text = str(caught.value)
    assert "step 2 (epoch 0)" in text
    assert ", ".join(f"photo{i}.png" for i in third[:5]) + ", ..." in text
    assert "lower learning rate" in text


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda rows, batch: rows.square(), r"term 'loss'.*tensor \(6, 8\)"),
        (lambda rows, batch: {"push": rows.mean(), "pull": 0.5}, r"term 'pull'.*float 0\.5"),
        (lambda rows, batch: {}, "no term"),
        (None, r"a dict of scalar tensors.*Tensor"),
    ],
)
def test_a_step_that_gives_no_single_numbers_is_refused_by_name(tmp_path, result, words):
    method = Told(result)
    if result is None:
        method.step = lambda embedder, batch, generator: method.embed(embedder, batch.inputs).mean()
    with pytest.raises(RunFailed, match=words):
        make(method).train(tmp_path)


def test_batches_without_an_active_tuple_are_counted_and_logged(tmp_path):
    run = make("triplet", settings={"margin": 1e-9, "miner": "all"}, steps=5)
    run.method.objective.quick = lambda given: None
    run.method.objective.parts = lambda given: (
        setattr(run.method.objective, "active", 0 if given.labels[0] % 2 else 3) or {"loss": given.embeddings.mean()}
    )
    odd = [int(batch[0]) // 5 % 2 for epoch in (0,) for batch in run.feed.batching.plan(epoch)][:5]
    state = run.train(tmp_path)
    assert 0 < sum(odd) < 5
    assert state.idle_batches == sum(odd)
    assert [entry["active"] for entry in log_of(tmp_path)] == [0 if item else 3 for item in odd]
    assert log_of(tmp_path)[-1]["idle"] == sum(odd)


def test_a_run_whose_loss_never_has_a_gradient_fails(tmp_path):
    with pytest.raises(RunFailed, match="None of the 3 steps had a gradient"):
        make(Told(lambda rows, batch: rows.detach().mean()), steps=3).train(tmp_path)


def test_an_idle_batch_between_others_takes_no_step_of_old_gradients_or_momentum(tmp_path):
    run = make(Told(lambda rows, batch: rows.square().mean() if batch.step != 1 else torch.zeros(())), steps=3)
    seen = []
    assert run.train(tmp_path, after_step=lambda *_: seen.append(run.weights()["head.linear.weight"])).idle_batches == 1
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


@pytest.mark.parametrize(("start", "collapsed"), [("random", False), ("one direction", True), ("zero", True)])
def test_collapse_of_the_embedding_is_reported(tmp_path, start, collapsed):
    run = make(Told(lambda rows, batch: rows.mean() * 0), steps=2, weight_decay=0)
    with torch.no_grad():
        if start != "random":
            run.embedder.head.linear.weight.zero_()
        if start == "one direction":
            run.embedder.head.linear.bias.fill_(2.0)
    state = run.train(tmp_path)
    assert state.collapsed is collapsed
    assert (log_of(tmp_path)[-1]["spread"] < 1e-4) is collapsed


def test_spread_and_rho_of_the_batch_are_logged(tmp_path):
    """spread: mean squared distance of the unit rows to their centre."""
    kept = []
    make(Told(lambda rows, batch: kept.append(rows.detach()) or rows.mean()), steps=1).train(tmp_path)
    unit = [row / row.norm() for row in kept[0].double()]
    centre = sum(unit) / len(unit)
    expected = sum(((row - centre) ** 2).sum().item() for row in unit) / len(unit)
    assert log_of(tmp_path)[0]["spread"] == pytest.approx(expected, abs=1e-6)
    shares = torch.linalg.svdvals(torch.stack(unit))
    rho = -(shares / shares.sum() * len(shares)).log().mean().item()
    assert log_of(tmp_path)[0]["rho"] == pytest.approx(rho, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "parts", "batch_norm"),
    [
        ("normalized_softmax", 2, "statistics"),
        ("normalized_softmax", 6, "statistics"),
        ("proxy_anchor", 3, "statistics"),
        ("triplet", 2, "statistics"),
        ("normalized_softmax", 2, "train"),
    ],
)
def test_accumulation_equals_the_whole_batch_to_rounding(tmp_path, name, parts, batch_norm):
    """One pass for the mean over images, two for losses that compare the images of a batch, blocks for BatchNorm."""
    above = {"cut": "last-2", "batch_norm": batch_norm}
    results = []
    for count in (1, parts):
        run = make(name, accumulate=count, **above, optimiser="sgd", lr=0.1, trunk_lr=0.1, clip=5.0)
        state = run.train(tmp_path / str(count))
        assert state.images == state.rows_through_trunk == 6 * 6
        results.append((run, log_of(tmp_path / str(count))))
    (whole, log), (split, repeated) = results
    start = make(name, **above).weights()
    for name, value in whole.weights().items():
        torch.testing.assert_close(split.weights()[name], value, rtol=1e-4, atol=1e-5)
    moved = (whole.weights()["head.linear.weight"] - start["head.linear.weight"]).abs().max()
    assert moved > 1e-2  # far more than the tolerance above
    assert [entry["loss"] for entry in repeated] == pytest.approx([entry["loss"] for entry in log], rel=1e-5)
    assert [entry["norm"] for entry in repeated] == pytest.approx([entry["norm"] for entry in log], rel=1e-4)


def test_accumulation_is_refused_where_neither_batch_nor_network_can_be_divided(tmp_path):
    with pytest.raises(BadSpecification, match=r"'mobilenetv3_small_050' is one block above the cut 'last-1'"):
        make("normalized_softmax", accumulate=2, cut="last-1", batch_norm="train").train(tmp_path)
    with pytest.raises(BadSpecification, match=r"block by block, which cannot be compiled\. Set compile: false"):
        make("normalized_softmax", accumulate=2, cut="tuned", batch_norm="train", compile=True).train(tmp_path)
    make("normalized_softmax", accumulate=2, cut="frozen", batch_norm="train", steps=1).train(tmp_path)


def test_clipping_bounds_the_step_and_logs_the_norm_before(tmp_path):
    steps, largest = [], []
    for clip in ({}, {"clip": 0.01}, {"clip_value": 0.02}):
        plain = {"optimiser": "sgd", "momentum": 0.0, "lr": 1.0, "weight_decay": 0.0, "schedule": "constant"}
        run = make(Told(lambda rows, batch: 1000 * rows.mean()), **plain, **clip, steps=1)
        before = nn.utils.parameters_to_vector(run.embedder.head.parameters()).detach().clone()
        folder = tmp_path / "".join(["run", *clip])
        run.train(folder)
        moved = nn.utils.parameters_to_vector(run.embedder.head.parameters()) - before
        steps.append(moved.norm().item())
        largest.append(moved.abs().max().item())
    assert steps[0] > 1
    assert steps[1] == pytest.approx(0.01, rel=1e-4)
    assert largest[0] > 0.02
    assert largest[2] == pytest.approx(0.02, rel=1e-4)
    assert log_of(tmp_path / "runclip")[0]["norm"] == pytest.approx(steps[0], rel=1e-4)
    assert "norm" not in log_of(tmp_path / "run")[0]


def test_the_averaging_of_rmsprop_decays_from_epoch_to_epoch(tmp_path):
    run = make("margin", optimiser="rmsprop", batches_per_epoch=2, rmsprop_alpha=0.94, rmsprop_alpha_decay=0.5, steps=5)
    run.train(tmp_path)
    assert {group["alpha"] for group in run.groups().values()} == {0.94 * 0.5**2}  # the third epoch


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "plateau"])
def test_every_schedule_sets_the_rate_of_every_group(tmp_path, schedule):
    rates = {"lr": 0.01, "trunk_lr": 0.001, "settings": {"beta_lr_multiplier": 4.0}}
    drops = {"step_every": 3, "step_factor": 0.5, "select": "map@r", "validate_every": 1, "plateau_patience": 1}
    run = make("margin", cut="last-1", schedule=schedule, warmup=2, **drops, **rates)
    values = iter([1.0] + [0.5] * 5)
    run.train(tmp_path, validate=lambda: next(values))
    expected = {
        "constant": [0.5, 1, 1, 1, 1, 1],
        "step": [0.5, 1, 1, 0.5, 0.5, 0.5],
        "cosine": [0.5, 1, *((1 + math.cos(math.pi * k / 4)) / 2 for k in range(4))],
        "plateau": [0.5, 1, 1, 0.5, 0.5, 0.25],  # drops after the 3rd and the 5th look, seen from the next step on
    }[schedule]
    assert [entry["factor"] for entry in log_of(tmp_path)] == pytest.approx(expected)
    rates = {name: group["lr"] for name, group in run.groups().items()}
    assert rates == pytest.approx(
        {"trunk": 0.001 * expected[-1], "head": 0.01 * expected[-1], "beta": 0.04 * expected[-1]}
    )


def test_bf16_gives_the_objective_finite_float32_rows_close_to_float32_ones(tmp_path):
    kept = {"float32": [], "bf16": []}
    for precision, rows_of in kept.items():
        run = make(
            Told(lambda rows, batch, into=rows_of: into.append(rows) or rows.square().mean()),
            cut="last-1",
            precision=precision,
            steps=3,
        )
        run.train(tmp_path / precision)
        assert all(value.dtype == torch.float32 for value in run.weights().values() if value.is_floating_point())
    for rows in kept["bf16"]:
        assert rows.dtype == torch.float32
        assert torch.isfinite(rows).all()
    first, same = kept["bf16"][0], kept["float32"][0]
    assert not torch.equal(first, same)  # it really ran in lower precision
    torch.testing.assert_close(first, same, rtol=0.05, atol=0.05 * same.abs().max().item())


def test_the_pace_of_logging_and_saving_changes_no_weight(tmp_path):
    results = []
    for number, pace in enumerate((Pace(log_every=1, save_every_steps=1), Pace(log_every=100, save_every_seconds=1e9))):
        run = make("margin", cut="last-1", dropout=0.2, layer_norm="affine")
        run.train(tmp_path / str(number), pace=pace)
        results.append(run.weights())
    assert all(torch.equal(results[1][name], value) for name, value in results[0].items())
    assert len(log_of(tmp_path / "1")) == 2  # the first step and the last


def test_seconds_of_watching_are_no_training_time(tmp_path, monkeypatch):
    real, lag = time.perf_counter, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: real() + lag[0])

    def watch():
        lag[0] += 1000.0
        return {"test": 0.5}

    state = make("contrastive", steps=4, validate_every=2).train(tmp_path, watch=watch)
    assert [entry["step"] for entry in state.monitored] == [0, 2, 4]
    assert state.seconds < 500
