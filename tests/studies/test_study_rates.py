"""Learning rates of own parameters: as published in the papers' studies, and under `rates: published`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from small_world import resolve, run_one, small_study

from levelfield import library, methods
from levelfield.methods import Method
from levelfield.papers.published import hyperparameters
from levelfield.progress import SILENT
from levelfield.studies import Study, parse_study
from levelfield.studies.planning.own_photos import photos_content
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import set_up
from levelfield.studies.specification import yaml_file
from levelfield.studies.specification.choices import MethodSpec
from levelfield.studies.specification.methods import settings_under
from levelfield.studies.specification.yaml_file import content_of
from levelfield.tuning.space import own_values, space_of

DATASETS = {"cub": "CUB-200-2011", "cars": "CARS196", "sop": "SOP", "inshop": "In-Shop"}
WITH_EPS = {"teh2020": "Teh 2020", "qian2019": "Qian 2019"}  # papers that publish an eps of Adam
read_study = cache(yaml_file.read_study)
ZHENG = ["zheng2021/table1", "zheng2021/table2", "zheng2021/table3"]


def forms(study: str) -> list[Study]:
    """A study as written, on each other dataset, and in its mini form."""
    elsewhere = [read_study(study, on=name) for name in content_of(study).get("also", {})]
    return [read_study(study), *elsewhere, read_study(study, mini=True)]


def made(method: MethodSpec) -> Method:
    return methods.create(method.name, num_classes=16, dim=64, **method.settings)


def rates(study: Study, method: MethodSpec) -> dict[str, float]:
    """The absolute rate of each group of own parameters."""
    built = made(method)
    head = built.lr or study.conditions.lr
    return {group.name: group.multiplier * head for group in built.groups()}


@pytest.mark.parametrize("name", ZHENG)
def test_zheng2021_has_the_rates_of_its_code_and_drml_wraps_the_loss_of_its_row(name: str) -> None:
    study = read_study(name)
    assert (study.conditions.lr, study.conditions.trunk_lr, study.conditions.optimiser) == (1e-3, 5e-5, "adamw")
    by_label = {method.label: rates(study, method) for method in study.methods}
    assert by_label["ProxyAnchor"] == pytest.approx({"proxies": 1e-2})
    assert by_label["DRML-PA"] == pytest.approx({"proxies": 1e-2, "branch_proxies": 1e-2})
    assert not any(m.conditions or "lr" in m.settings for m in study.methods), "the same for all rows"
    for form in forms(name):
        settings = {method.label: (method.name, method.settings) for method in form.methods}
        pairs = [claim.parts for claim in form.claims if claim.source != "control"]
        assert len(pairs) == 3
        for first, _, second in pairs:
            drml, (objective, plain) = settings[first][1], settings[second]
            assert drml["objective"] == objective
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


def of_hist(preset: str, key: str) -> float:
    """What lim2022's tables say of HIST."""
    _, dataset, *variant = preset.split("/")
    backbone = "BN-Inception" if "bn_inception" in variant else "ResNet50"
    entries = [e for e in hyperparameters() if e["method"] == "hist" and e["dataset"] == DATASETS[dataset]]
    [value] = [e["params"][key] for e in entries if e["params"]["backbone"] == backbone]
    return float(value)


@pytest.mark.parametrize("name", [name for name in library.names() if name.startswith("lim2022/")])
def test_hist_is_rescaled_to_the_rate_of_the_head_by_its_rule(name: str) -> None:
    """The rule in the docstring of `hist`: own rates as published, and tau times the head's rate, if that is larger."""
    for study in forms(name):
        for method in study.methods:
            if method.name != "hist":
                continue
            preset, actual = method.settings["preset"], rates(study, method)
            expected = {"hgnn": of_hist(preset, "lr_hgnn")}
            expected |= dict.fromkeys(("means", "log_vars"), of_hist(preset, "lr_distributions"))
            expected = {name: rate for name, rate in expected.items() if name in actual}
            assert {name: actual[name] for name in expected} == pytest.approx(expected, rel=1e-3)
            slower = min(1.0, of_hist(preset, "lr") / study.conditions.lr)
            objective: Any = made(method).objective
            assert objective.tau == pytest.approx(of_hist(preset, "tau") * slower, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in library.names() if "/" in name])
def test_rates_that_were_published_with_an_eps_of_adam_are_used_with_it(name: str) -> None:
    """With Proxy NCA++'s eps of 1 a rate of 400 is small, and without it far too large."""
    for study in forms(name)[:-1]:
        for method in study.methods:
            paper, _, dataset = str(method.settings.get("preset")).partition("/")
            entries = [
                entry["params"]
                for entry in hyperparameters()
                if entry["paper"] == WITH_EPS.get(paper)
                and entry["method"] == method.name
                and entry["dataset"] in ("all", DATASETS.get(dataset))
            ]
            params = entries[0] if entries else {}
            if {"adam_eps", "lr", "proxy_lr"} <= params.keys():
                conditions = method.under(study.conditions)
                assert (conditions.optimiser, conditions.eps) in (("adam", params["adam_eps"]), ("radam", 0.01))
                if conditions.eps == 1:
                    assert rates(study, method)["proxies"] == pytest.approx(params["proxy_lr"])
                    assert conditions.trunk_lr == params["lr"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("proxy_anchor", {"head": 0.002, "proxies": 0.01}),
        ({"proxy_anchor": {"proxy_lr_multiplier": 100}}, {"head": 0.002, "proxies": 0.2}),
        ({"proxy_anchor": {"lr": 1e-3}}, {"head": 1e-3, "proxies": 0.01}),
        ({"margin": {"preset": "fehervari2019"}}, {"head": 0.002, "beta": 0.1}),
        ({"margin": {"preset": "mlrc/cub"}}, {"head": 0.002, "beta": 0.002}),  # 0.00131 would be below the head's
        ("normalized_softmax", {"head": 0.002, "proxies": 0.002}),
        ("drml", {"head": 0.002, "proxies": 0.01, "branch_proxies": 0.01}),
        (
            {"drml": {"objective": "proxy_anchor", "final_settings": {"proxy_lr_multiplier": 2}}},
            {"head": 0.002, "proxies": 0.004, "branch_proxies": 0.01},
        ),
        (None, {"head": 0.002, "proxies": 0.2}),  # proxy_anchor without the condition: multiples as they are
    ],
    ids=str,
)
def test_own_parameters_learn_at_their_published_rates(photos: Path, method: Any, expected: dict[str, float]) -> None:
    condition = {} if method is None else {"rates": "published"}
    [run] = resolve(small_study(photos, [method or "proxy_anchor"], lr=0.002, **condition)).runs
    setup = set_up(run.spec, inputs_for(run.spec, None, "cpu"), "cpu", SILENT)
    assert {g["name"]: g["base_lr"] for each in setup.optimisers for g in each.param_groups} == pytest.approx(expected)


def test_the_ledger_prints_the_multiple_and_where_it_comes_from(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["proxy_anchor"], rates="published", lr=0.003)
    texts = read_result(run_one(study, tmp_path)).deviation_texts
    assert "lr of proxies x3.33333 (x1; x100 of 0.0001 as published)" in texts


def test_a_run_is_identified_by_the_rates_it_had(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        return resolve(small_study(photos, ["proxy_anchor"], rates="published")).runs[0].spec.identity

    now = identity()
    assert identity() == now
    monkeypatch.setattr("levelfield.methods._parameters.PublishedRate.under", lambda *_: 50.0)
    assert identity() != now


def test_the_recipe_for_photos_and_the_first_trial_use_published_rates(photos: Path) -> None:
    recipe = parse_study(photos_content())
    filled = {method.name: settings_under(method, recipe.conditions) for method in recipe.methods}
    assert filled["margin"] == {"beta_lr_multiplier": 1.0}
    assert filled["proxy_anchor"] == {"proxy_lr_multiplier": 10.0}
    study = small_study(photos, ["margin"], rates="published", lr=0.001)
    (method,) = study.methods
    assert own_values(study, method, space_of(study, method))["beta_lr_multiplier"] == 1.0
