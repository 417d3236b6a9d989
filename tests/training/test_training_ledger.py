"""The ledger detects every deviation. Whole runs of cheating and of honest methods."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_world import Told, conditions, execute_run, make

from levelfield import objectives
from levelfield.embedder import load
from levelfield.embedder.head import Head
from levelfield.errors import BadInput, BadSpecification, Unfair
from levelfield.methods import Group, Method, Setting
from levelfield.training.ledger import Measured, declared, measure_setup, settle

SETTING = Setting(8, 16)


CHEATS = Path(__file__).parent / "cheats.py"
BEFORE_THE_FIRST_STEP = {"Registered", "LargerBatch", "OtherOptimiser", "FasterRate", "SaysMore", "WiderHead"}


@pytest.fixture
def run_cheat(training_photos, training_cache, tmp_path):
    def run(name, **changes):
        return execute_run(
            training_photos, tmp_path / "run", f"{CHEATS}:{name}", store=training_cache, cut="last-1", **changes
        )

    return run


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Registered", "undeclared deviation from the conditions: extra parameters 7"),
        ("Forgotten", r"'1\.scale' \(7,\) is in no optimiser group"),
        ("InAList", r"trainable tensor \(7,\).*hidden extra parameter"),
        ("InAListAndGroups", r"'hidden' contains a parameter \(7,\).*hidden extra parameter"),
        ("Twice", r"undeclared deviation from the conditions: trunk passes 2 \(1\)"),
        ("Never", r"undeclared deviation from the conditions: trunk passes 0 \(1\)"),
        ("LargerBatch", r"undeclared deviation from the conditions: batch 3x3 \(3x2\)"),
        ("OtherBatching", r"undeclared deviation from the conditions: batching random \(spc\)"),
        ("WiderAtTheEnd", r"undeclared deviation from the conditions: dim 16 \(8\)"),
        ("RefinesInSilence", r"undeclared deviation from the conditions: refined yes \(no\)"),
        ("WiderHead", r"undeclared deviation from the conditions: extra parameters 2,312"),
        ("OwnOptimiser", r"its own optimiser \(SGD\)"),
        ("OtherOptimiser", r"undeclared deviation from the conditions: optimiser of scale sgd \(adamw\)"),
        ("FasterRate", r"undeclared deviation from the conditions: lr 0\.1 \(0\.003\)"),
        ("TrainsItsHead", r"its own optimiser \(Adam\)"),
        ("LearnsInABuffer", "undeclared deviation from the conditions: learned buffers 8"),
        ("SaysMore", "declares 'extra parameters 5', but its run did not show this deviation"),
        ("SaysNonsense", "declares 'luck 3', but its run did not show this deviation"),
    ],
)
def test_a_cheating_method_is_refused_and_the_message_names_what_it_did(run_cheat, tmp_path, name, words):
    with pytest.raises(Unfair, match=words):
        run_cheat(name, steps=2)
    assert not (tmp_path / "run" / "training.json").exists()
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert name not in BEFORE_THE_FIRST_STEP or not (tmp_path / "run" / "log.jsonl").exists()


def test_a_hidden_parameter_that_appears_later_is_found_at_the_next_log_line(run_cheat):
    with pytest.raises(Unfair, match="hidden extra parameter"):
        run_cheat("InAListLater", steps=21)


def deviations_of(result):
    return {entry["what"]: entry["method"] for entry in result["deviations"]}


def test_a_method_that_keeps_the_rules_has_no_deviation(run_cheat):
    assert deviations_of(run_cheat("Plain")) == {}


def test_a_declared_second_pass_runs_and_is_listed(run_cheat):
    result = run_cheat("TwiceDeclared", steps=2)
    assert deviations_of(result) == {"trunk_passes": 2}
    assert result["measured"]["rows_through_trunk"] == 2 * result["measured"]["images"] == 2 * 2 * 6
    assert result["deviations"][0]["text"] == "trunk passes 2 (1)"


def test_a_declared_wider_refinement_runs_is_listed_and_is_in_the_signature(run_cheat, tmp_path):
    assert deviations_of(run_cheat("WiderDeclared", steps=1)) == {"dim": 16, "refined": "yes"}
    signatures = json.loads((tmp_path / "run" / "metrics.json").read_text())["signatures"]
    assert signatures["recall@1"]["representation"]["refined"] == "yes"


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("contrastive", {"batch": "3x2", "lr": 0.003}, {}),
        ("normalized_softmax", {"proxy_lr_multiplier": 1.0}, {"extra_parameters": 3 * 8}),
        ("proxy_anchor", {"proxy_lr_multiplier": 100.0}, {"extra_parameters": 24, "lr_of_proxies": 100.0}),
        (
            "margin",
            {"beta_lr_multiplier": 5.0},
            {"extra_parameters": 1, "lr_of_beta": 5.0, "weight_decay_of_beta": 0.0},
        ),
        (
            "hist",
            {"hidden": 4, "hgnn_lr_multiplier": 1.0, "distribution_lr_multiplier": 1.0},
            {
                "extra_parameters": 2 * 24 + 36 + 8 + 15,
                "weight_decay_of_hgnn_biases_and_gains": 0.0,
                "head_norm": "yes",
            },
        ),
        ("contrastive", {"batch": "2x3", "lr": 0.01, "trials": 4}, {"batch": "2x3", "lr": 0.01, "tuning_trials": 4}),
        (
            "proxy_anchor",
            {"matryoshka": [2, 8], "proxy_lr_multiplier": 5.0},
            {"extra_parameters": 3 * (2 + 8), "lr_of_proxies": 5.0, "lr_of_proxies_first_2": 5.0, "matryoshka": "2, 8"},
        ),
        ("contrastive", {"batch": "6"}, {"batch": "6", "batching": "random"}),
        ("untrained", {}, {"steps": 0, "dim": 288}),
        *((name, {}, {"steps": 0}) for name in ("random_projection", "start", "lda", "whitened")),
    ],
)
def test_an_honest_method_passes_and_lists_its_deviations(
    training_photos, training_cache, tmp_path, method, settings, expected
):
    result = execute_run(
        training_photos, tmp_path / "run", method, settings=settings, store=training_cache, cut="last-1", steps=2
    )
    assert deviations_of(result) == expected


def test_buffers_in_which_a_plain_loss_learns_are_listed_without_its_declaring_them(run_cheat):
    assert deviations_of(run_cheat("RunningStatistics", steps=2)) == {"learned_buffers": 2 * 8 + 1 + 3 * 8}


def test_every_point_that_can_be_declared_is_compared_with_what_was_done():
    chosen = conditions()
    done = {
        "extra_parameters": Measured(extra_parameters=3),
        "batch": Measured(layout="4x2", batching="spc"),
        "dim": Measured(dim=9),
        "trunk_passes": Measured(images=10, rows_through_trunk=0),
        "steps": Measured(steps=7),
        "lr_of_trunk": Measured(rates={"trunk": 2.0}, decays={"trunk": 1e-4}, optimisers={"trunk": "adamw"}),
        "weight_decay_of_head": Measured(rates={"head": 1.0}, decays={"head": 0.0}, optimisers={"head": "adamw"}),
        "head_norm": Measured(head_norm=True),
        "optimiser_of_head": Measured(rates={"head": 1.0}, decays={"head": 1e-4}, optimisers={"head": "sgd"}),
    }
    for what, measured in done.items():
        [deviation] = measured.deviations(chosen, trains=True)
        assert deviation.what == what
        with pytest.raises(Unfair, match=what.replace("_", " ")):
            settle([], chosen, measured, trains=True)
        assert settle([deviation], chosen, measured, trains=True) == [deviation]
        with pytest.raises(Unfair, match="declares"):
            settle([deviation], chosen, Measured(), trains=True)
        other = replace(deviation, method="9x9" if isinstance(deviation.method, str) else 12345)
        with pytest.raises(Unfair, match=what.replace("_", " ")):  # declared, but not as much as was done
            settle([other], chosen, measured, trains=True)


def test_a_budget_that_is_not_spent_is_no_deviation():
    assert Measured(steps=4).deviations(conditions(steps=10), trains=True) == []
    assert declared(Method(trials=3), conditions(tuning_trials=3), SETTING) == []
    assert [d.text for d in declared(Method(trials=3), conditions(tuning_trials=8), SETTING)] == ["tuning trials 3 (8)"]


def test_the_hooks_of_a_failed_run_are_gone(tmp_path):
    run = make(Told(lambda rows, batch: rows.sum() * float("nan")))
    with pytest.raises(Exception, match="loss is nan"):
        run.train(tmp_path)
    assert not run.embedder._forward_hooks
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    other.param_groups[0]["params"][0].grad = torch.ones(1)
    other.step()  # nobody refuses it any more


def test_a_group_with_a_rate_of_its_own_has_to_declare_it(tmp_path):
    class Absolute(Method):
        def groups(self):
            return [Group(g.name, g.parameters, lr=0.5) for g in super().groups()]

    method = Absolute(objectives.create("proxy_anchor", num_classes=6, dim=8, proxy_lr_multiplier=1.0))
    run = make(method, lr=0.01)
    reference = sum(p.numel() for p in run.embedder.parameters() if p.requires_grad)
    measured = measure_setup(run.embedder, method, run.optimisers, run.conditions, reference_parameters=reference)
    assert measured.rates["proxies"] == pytest.approx(50.0)
    with pytest.raises(Unfair, match="lr of proxies x50"):
        settle(declared(method, run.conditions, SETTING), run.conditions, measured, trains=True)


def test_global_draws_of_somebodys_own_method_give_the_same_weights_again(training_photos, training_cache, tmp_path):
    for name in ("one", "two"):
        execute_run(
            training_photos, tmp_path / name, f"{CHEATS}:DrawsEverywhere", store=training_cache, cut="frozen", steps=3
        )
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_a_head_of_somebodys_own_is_saved_and_loaded_when_it_is_given(training_photos, training_cache, tmp_path):
    execute_run(training_photos, tmp_path / "run", f"{CHEATS}:OwnHead", store=training_cache, cut="frozen", steps=1)
    with pytest.raises(BadInput, match="a custom head"):
        load(tmp_path / "run")
    blank = Head(load_width(tmp_path / "run"), 8)
    model = load(tmp_path / "run", head=torch.nn.Sequential(blank))
    photo = next(training_photos.rglob("*.png"))
    assert model.embed(photo).shape == (1, 8)


def load_width(folder: Path) -> int:
    return int(load_file(folder / "model.safetensors")["head.0.linear.weight"].shape[1])


@pytest.mark.parametrize("lr", [float("nan"), -5, "fast", float("inf"), 0])
def test_a_rate_that_is_no_positive_number_is_refused(lr):
    with pytest.raises(BadSpecification, match="'lr' is"):
        Method(objectives.create("contrastive"), lr=lr)


def test_a_rate_that_somebodys_own_method_sets_later_is_checked_too():
    method = Method(objectives.create("contrastive"))
    method.lr = float("nan")
    with pytest.raises(BadSpecification, match="'lr' is nan; expected a finite number"):
        make(method)
