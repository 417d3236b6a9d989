"""Presets have the papers' numbers, and fit their objectives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from levelfield import methods, miners, objectives
from levelfield.errors import BadSpecification
from levelfield.papers import presets as _presets
from levelfield.papers.presets import DIFFERENCES, Difference
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import read_study

EVERY = [(name, preset) for name in objectives.names() for preset in _presets.presets(name)]


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_every_preset_makes_an_objective(name: str, preset: str) -> None:
    objective = objectives.create(name, num_classes=3, dim=8, preset=preset)
    assert isinstance(objective, objectives.Objective)


@pytest.mark.parametrize(
    ("name", "preset", "expected"),
    [
        (
            "contrastive",
            "roth2020",
            {"neg_margin": 1.0, "miner": {"distance_weighted": {"upper": None, "empty": "skip"}}},
        ),
        ("contrastive", "mlrc/cars", {"pos_margin": 0.2652, "neg_margin": 0.5409, "reduction": "mean_nonzero"}),
        ("contrastive", "mlrc/cub/256", {"pos_margin": 0.2227, "neg_margin": 0.7694}),
        ("contrastive", "lim2022/sop", {"pos_margin": 0.285, "neg_margin": 0.513}),
        ("triplet", "roth2020", {"margin": 0.2, "squared": True}),
        ("triplet", "roth2020/cub/rho", {"switch": 0.4, "squared": True}),
        ("triplet", "fehervari2019", {"margin": 1.0, "squared": True, "normalize": False}),
        ("margin", "roth2020/cub", {"margin": 0.2, "beta": 1.2, "beta_lr_multiplier": 50.0, "beta_per_class": True}),
        ("margin", "roth2020/sop/beta06", {"beta": 0.6, "divisor": "active_triplets"}),
        ("margin", "roth2020/cub/rho_beta06_text", {"beta": 0.6, "switch": 0.4, "divisor": "active_pairs"}),
        ("quadruplet", "roth2020/cub/text", {"margin1": 1.0, "margin2": 0.5, "miner": "distance_weighted"}),
        ("snr", "roth2020/sop/text", {"lam": 0.005, "reg_over": "batch"}),
        ("triplet", "roth2020/cub/text", {"squared": False, "margin": 0.2}),
        ("triplet", "roth2020/cub/semihard", {"squared": True, "miner": "semihard"}),
        ("triplet", "roth2020/cub/semihard_text", {"squared": False, "miner": {"semihard": {"margin": None}}}),
        ("normalized_softmax", "roth2020/sop/text", {"proxy_lr_multiplier": 1.0}),
        ("generalized_lifted", "roth2020/cars/text", {"nu_power": 2, "nu": 0.005}),
        ("n_pair", "roth2020/cub/text", {"form": "all", "nu_power": 2}),
        ("margin", "fehervari2019", {"beta_per_class": True, "beta_optimiser": "sgd", "beta_lr_multiplier": 1000.0}),
        ("margin", "roth2020/cub/rho_beta06", {"beta": 0.6, "switch": 0.4}),
        ("margin", "mlrc/sop/per_class", {"margin": 0.0518, "beta": 0.8424, "beta_per_class": True}),
        ("margin", "zheng2021", {"margin": 0.2, "beta": 1.2}),
        ("multi_similarity", "mlrc/cub", {"alpha": 0.01, "beta": 50.6, "base": 0.56, "epsilon": None}),
        ("multi_similarity", "mlrc/cub/miner", {"alpha": 17.97, "epsilon": 0.39}),
        ("histogram", "roth2020/sop", {"bins": 11}),
        ("histogram", "roth2020/cars", {"bins": 65}),
        ("quadruplet", "roth2020", {"margin1": 0.2, "margin2": 0.2}),  # the code's, not the text's
        ("snr", "roth2020", {"lam": 0.0, "margin": 0.2}),
        ("snr", "roth2020/cars/rho", {"lam": 0.005, "switch": 0.35}),
        ("angular", "roth2020", {"alpha": pytest.approx(45), "angular_weight": 2.0, "nu": 0.005, "nu_power": 1}),
        ("arcface", "mlrc/cub", {"margin": math.radians(23.22), "scale": 100.0, "proxy_lr_multiplier": 5130.0}),
        ("arcface", "mlrc/cub/256", {"proxy_init": "normal"}),
        ("proxy_nca", "roth2020", {"scale": 9.0, "include_true": False, "proxy_init": "small_normal"}),
        ("proxy_nca", "fehervari2019", {"scale": 9.0, "proxy_init": "tiny_normal"}),
        ("proxy_nca", "mlrc/cars", {"include_true": True, "proxy_init": "normal"}),
        ("cosface", "mlrc", {"proxy_init": "normal"}),
        ("proxy_triplet", "fehervari2019", {"margin": 1.0, "proxy_init": "tiny_normal", "proxy_lr_multiplier": 100.0}),
        ("proxy_nca", "proxy_nca_port/sop", {"scale": 8.0, "include_true": True}),
        (
            "normalized_softmax",
            "fehervari2019",
            {"temperature": 0.05, "label_smoothing": 0.1, "proxy_init": "tiny_normal"},
        ),
        ("normalized_softmax", "fehervari2019", {"dropout": 0.5, "proxy_lr_multiplier": 1.0}),
        ("normalized_softmax", "roth2020/sop", {"proxy_lr_multiplier": 200.0}),
        ("normalized_softmax", "roth2020", {"proxy_lr_multiplier": 1.0}),  # CUB: what holds everywhere, not SOP's own
        ("softmax", "seidenschwarz2021/cars", {"temperature": 0.1111111111111, "label_smoothing": 0.1}),
        (
            "message_passing",
            "seidenschwarz2021",
            {"heads": 2, "steps": 1, "temperature": 0.2, "dropout": 0.1, "null_logit": True},
        ),
        (
            "message_passing",
            "seidenschwarz2021/cars",
            {"heads": 8, "steps": 2, "concat_steps": True, "label_smoothing": 0.1},
        ),
        ("message_passing", "seidenschwarz2021/inshop", {"heads": 4, "temperature": pytest.approx(0.1859, abs=1e-4)}),
        ("group_loss", "seidenschwarz2021/sop", {"temperature": 54}),
        ("hist", "lim2022", {"tau": 32, "alpha": 1.1, "hidden": 512, "lambda_s": 1, "hgnn_lr_multiplier": 5.0}),
        ("hist", "lim2022/cars", {"alpha": 0.9, "hgnn_lr_multiplier": 10.0, "distribution_lr_multiplier": 1000.0}),
        ("hist", "lim2022/sop", {"tau": 16, "alpha": 2, "distribution_lr_multiplier": 100.0}),
        ("hist", "lim2022/cub/bn_inception", {"tau": 16, "alpha": 1, "distribution_lr_multiplier": 500.0}),
        ("hist", "lim2022/cars/proxies", {"variance": "fixed", "alpha": 0.9}),
        ("hist", "lim2022/cub/baseline", {"relations": "linear", "distribution_weight": 0.0, "tau": 32}),
        ("soft_triple", "qian2019", {"la": 20, "centers_per_class": 10}),
        ("n_pair", "fehervari2019", {"form": "pairs", "nu": 0.0005}),
    ],
)
def test_a_preset_has_the_papers_numbers(name: str, preset: str, expected: dict[str, Any]) -> None:
    found = _presets.presets(name)[preset]
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("one", [one for one in DIFFERENCES if one.preset], ids=lambda one: f"{one.methods}-{one.what}")
def test_every_difference_of_text_and_code_is_a_pair_of_presets(one: Difference) -> None:
    for name in one.methods.split(", "):
        known = _presets.presets(name)
        assert known[one.preset] != known[_presets.without_text(one.preset)], name


def test_a_difference_in_training_is_a_condition_of_the_papers_studies() -> None:
    [one] = [one for one in DIFFERENCES if one.conditions]
    study = read_study(f"{one.paper}/table1")
    for key, value in one.conditions:
        assert getattr(study.conditions, key) not in (value, None)
        assert getattr(read_study(f"{one.paper}/table1", [f"conditions.{key}={value}"]).conditions, key) == value


def test_what_is_given_wins_over_the_preset() -> None:
    objective: Any = objectives.create("margin", num_classes=2, preset="roth2020/cub/beta06", margin=0.3, miner="all")
    assert (objective.margin, objective.beta.tolist(), objective.miner) == (0.3, pytest.approx([0.6, 0.6]), None)


def test_without_a_preset_the_defaults_hold() -> None:
    plain: Any = objectives.create("triplet")
    paper: Any = objectives.create("triplet", preset="roth2020")
    assert (plain.squared, paper.squared) == (False, True)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(
        BadSpecification,
        match=r"no preset 'roth2020/cras'. Did you mean 'roth2020/cars'\? There are: roth2020, roth2020/cub",
    ):
        objectives.create("histogram", preset="roth2020/cras")


def test_facts_show_the_settings_per_dataset() -> None:
    assert objectives.describe("histogram").presets["roth2020/sop"] == {"bins": 11}


def test_a_study_may_name_a_preset() -> None:
    study = Study.model_validate({"data": "emoji", "methods": [{"margin": {"preset": "roth2020"}}]})
    made: Any = methods.create(study.methods[0].name, num_classes=3, dim=4, **study.methods[0].settings)
    assert made.objective.miner == miners.create("distance_weighted", upper=None, empty="skip")


def test_a_preset_works_in_anybodys_loop() -> None:
    rows = torch.eye(6, requires_grad=True)
    objectives.create("contrastive", preset="mlrc/cub")(rows, torch.arange(6) // 2).backward()
    assert rows.grad is not None
