"""The learning rates of the papers' studies are the published ones, and rows compared by a claim wrap the same loss."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from levelfield import library, methods
from levelfield.methods import Method
from levelfield.papers.published import hyperparameters
from levelfield.studies.specification import yaml_file as reading
from levelfield.studies.specification.choices import MethodSpec
from levelfield.studies.specification.study import Study
from levelfield.studies.specification.yaml_file import content_of

DATASETS = {"cub": "CUB-200-2011", "cars": "CARS196", "sop": "SOP", "inshop": "In-Shop"}
WITH_EPS = {"teh2020": "Teh 2020", "qian2019": "Qian 2019"}  # papers that publish an eps of Adam
read_study = cache(reading.read_study)


def forms(study: str) -> list[Study]:
    """A study as it stands, on each other data, and in small."""
    elsewhere = [read_study(study, on=name) for name in content_of(study).get("also", {})]
    return [read_study(study), *elsewhere, read_study(study, mini=True)]


def made(method: MethodSpec) -> Method:
    return methods.create(method.name, num_classes=16, dim=64, **method.settings)


def rates(study: Study, method: MethodSpec) -> dict[str, float]:
    """The absolute rate of each group of own parameters."""
    built = made(method)
    head = built.lr or study.conditions.lr
    return {group.name: group.multiplier * head for group in built.groups()}


def published(preset: str, key: str) -> float:
    """What lim2022's tables say of HIST."""
    _, place, *variant = preset.split("/")
    backbone = "BN-Inception" if "bn_inception" in variant else "ResNet50"
    entries = [e for e in hyperparameters() if e.method == "hist" and e.dataset == DATASETS[place]]
    [value] = [e.params[key] for e in entries if e.params["backbone"] == backbone]
    return float(value)


@pytest.mark.parametrize("name", ["zheng2021/table1", "zheng2021/table2", "zheng2021/table3"])
def test_the_rows_of_zheng2021_have_the_rates_of_its_code(name: str) -> None:
    study = read_study(name)
    assert (study.conditions.lr, study.conditions.trunk_lr, study.conditions.optimiser) == (1e-3, 5e-5, "adamw")
    found = {m.label: rates(study, m) for m in study.methods}
    assert found["ProxyAnchor"] == pytest.approx({"proxies": 1e-2})
    assert found["DRML-PA"] == pytest.approx({"proxies": 1e-2, "branch_proxies": 1e-2})
    assert not any(m.conditions or "lr" in m.settings for m in study.methods), "the same for all rows"


@pytest.mark.parametrize("name", ["zheng2021/table1", "zheng2021/table2", "zheng2021/table3"])
def test_drml_wraps_the_loss_of_the_row_that_it_is_compared_with(name: str) -> None:
    for study in forms(name):
        by_label = {method.label: method for method in study.methods}
        pairs = [claim.parts for claim in study.claims if claim.source != "control"]
        assert len(pairs) == 3
        for first, _, second in pairs:
            drml, plain = by_label[first].settings, by_label[second].settings
            assert drml["objective"] == by_label[second].name
            if second == "ProxyAnchor":  # zheng2021's code has settings of its own for both
                assert (drml["settings"]["preset"], plain["preset"]) == ("zheng2021/cub/drml", "zheng2021")
                continue
            assert drml["settings"] == {key: value for key, value in plain.items() if key != "batch"}
            assert drml.get("batch") == plain.get("batch")


@pytest.mark.parametrize("name", [name for name in library.names() if name.startswith("fehervari2019/table")])
def test_the_betas_of_fehervari2019_are_trained_by_sgd_at_its_rate(name: str) -> None:
    for study in forms(name):
        for method in study.methods:
            if method.name == "margin" and method.settings.get("preset") == "fehervari2019":
                [beta] = made(method).groups()
                assert (beta.optimiser, study.conditions.momentum) == ("sgd", 0.9)
                assert rates(study, method)["beta"] == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize("name", [name for name in library.names() if name.startswith("lim2022/")])
def test_hist_is_rescaled_to_the_rate_of_the_head_by_its_rule(name: str) -> None:
    """The rule in the docstring of `hist`: own rates as published, and tau times the head's rate, if that is larger."""
    for study in forms(name):
        for method in study.methods:
            if method.name != "hist":
                continue
            preset, found = method.settings["preset"], rates(study, method)
            expected = {"hgnn": published(preset, "lr_hgnn")}
            expected |= dict.fromkeys(("means", "log_vars"), published(preset, "lr_distributions"))
            known = {name: rate for name, rate in expected.items() if name in found}
            assert {name: found[name] for name in known} == pytest.approx(known, rel=1e-3)
            slower = min(1.0, published(preset, "lr") / study.conditions.lr)
            objective: Any = made(method).objective
            assert objective.tau == pytest.approx(published(preset, "tau") * slower, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in library.names() if "/" in name])
def test_rates_that_were_published_with_an_eps_of_adam_are_used_with_it(name: str) -> None:
    """With Proxy NCA++'s eps of 1 a rate of 400 is small, and without it far too large."""
    for study in forms(name)[:-1]:
        for method in study.methods:
            paper, _, place = str(method.settings.get("preset")).partition("/")
            params = next(
                (
                    entry.params
                    for entry in hyperparameters()
                    if entry.paper == WITH_EPS.get(paper)
                    and entry.method == method.name
                    and entry.dataset in ("all", DATASETS.get(place))
                ),
                {},
            )
            if {"adam_eps", "lr", "proxy_lr"} <= params.keys():
                conditions = method.under(study.conditions)
                assert (conditions.optimiser, conditions.eps) in (("adam", params["adam_eps"]), ("radam", 0.01))
                if conditions.eps == 1:
                    assert rates(study, method)["proxies"] == pytest.approx(params["proxy_lr"])
                    assert conditions.trunk_lr == params["lr"]
