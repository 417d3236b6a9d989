"""Presets have the papers' numbers, and fit their objectives."""

from __future__ import annotations

import math
from typing import Any

import pytest

from levelfield import objectives
from levelfield.errors import BadSpecification
from levelfield.papers import presets as _presets

EVERY = [(name, preset) for name in objectives.names() for preset in _presets.presets(name)]


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_every_preset_makes_an_objective(name: str, preset: str) -> None:
    objective = objectives.create(name, num_classes=3, dim=8, preset=preset)
    assert isinstance(objective, objectives.Objective)


@pytest.mark.parametrize(
    ("name", "preset", "expected"),
    [
        ("contrastive", "mlrc/cars", {"pos_margin": 0.2652, "neg_margin": 0.5409, "reduction": "mean_nonzero"}),
        ("contrastive", "mlrc/cub/256", {"pos_margin": 0.2227, "neg_margin": 0.7694}),
        ("triplet", "fehervari2019", {"margin": 1.0, "squared": True, "normalize": False}),
        ("triplet", "roth2020/cub/rho", {"switch": 0.4, "squared": True}),
        ("triplet", "roth2020/cub/text", {"squared": False, "margin": 0.2}),
        ("triplet", "roth2020/cub/semihard_text", {"squared": False, "miner": {"semihard": {"margin": None}}}),
        ("margin", "roth2020/cub", {"margin": 0.2, "beta": 1.2, "beta_lr_multiplier": 50.0, "beta_per_class": True}),
        ("margin", "roth2020/cub/rho_beta06", {"beta": 0.6, "switch": 0.4, "divisor": "active_triplets"}),
        ("margin", "roth2020/cub/rho_beta06_text", {"beta": 0.6, "switch": 0.4, "divisor": "active_pairs"}),
        ("margin", "roth2020/sop/rho", {"switch": 0.15}),
        ("margin", "fehervari2019", {"beta_per_class": True, "beta_optimiser": "sgd", "beta_lr_multiplier": 1000.0}),
        ("multi_similarity", "mlrc/cub/miner", {"alpha": 17.97, "epsilon": 0.39}),
        ("histogram", "roth2020/sop", {"bins": 11}),
        ("quadruplet", "roth2020", {"margin1": 0.2, "margin2": 0.2}),  # the code's, not the text's
        ("snr", "roth2020/cars/rho", {"lam": 0.005, "switch": 0.35}),
        ("snr", "roth2020/cub/rho", {"switch": 0.3}),
        ("arcface", "mlrc/cub", {"margin": math.radians(23.22), "scale": 100.0, "proxy_lr_multiplier": 5130.0}),
        ("proxy_nca", "mlrc/cars", {"include_true": True, "proxy_init": "normal"}),
        ("normalized_softmax", "fehervari2019", {"label_smoothing": 0.1, "dropout": 0.5, "proxy_lr_multiplier": 1.0}),
        ("normalized_softmax", "roth2020", {"proxy_lr_multiplier": 1.0}),  # CUB: what holds everywhere, not SOP's own
        ("normalized_softmax", "roth2020/sop", {"proxy_lr_multiplier": 200.0}),
        ("message_passing", "seidenschwarz2021/cars", {"heads": 8, "steps": 2, "concat_steps": True}),
        ("hist", "lim2022", {"tau": 32, "alpha": 1.1, "hidden": 512, "lambda_s": 1, "hgnn_lr_multiplier": 5.0}),
        ("hist", "lim2022/sop", {"tau": 16, "alpha": 2, "distribution_lr_multiplier": 100.0}),
        ("hist", "lim2022/cars/proxies", {"variance": "fixed", "alpha": 0.9}),
        ("hist", "lim2022/cub/baseline", {"relations": "linear", "distribution_weight": 0.0, "tau": 32}),
    ],
)
def test_a_preset_has_the_papers_numbers(name: str, preset: str, expected: dict[str, Any]) -> None:
    found = _presets.presets(name)[preset]
    assert {key: found[key] for key in expected} == expected


def test_what_is_given_wins_over_the_preset() -> None:
    objective: Any = objectives.create("margin", num_classes=2, preset="roth2020/cub/beta06", margin=0.3, miner="all")
    assert (objective.margin, objective.beta.tolist(), objective.miner) == (0.3, pytest.approx([0.6, 0.6]), None)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(
        BadSpecification,
        match=r"no preset 'roth2020/cras'. Did you mean 'roth2020/cars'\? There are: roth2020, roth2020/cub",
    ):
        objectives.create("histogram", preset="roth2020/cras")
