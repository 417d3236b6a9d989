"""`rates: published` in a study: what the optimiser gets, what the ledger prints, and what stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_world import resolve, run_one, small_study

from levelfield.progress import SILENT
from levelfield.studies.planning.own_photos import photos_content
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.inputs import inputs_for
from levelfield.studies.runs.setup import set_up
from levelfield.studies.specification.methods import settings_under
from levelfield.studies.specification.study import parse_study
from levelfield.tuning.space import own_values, space_of


def rates_of(photos: Path, method: Any, **conditions: Any) -> dict[str, float]:
    run = resolve(small_study(photos, [method], overrides=("seeds=1",), **conditions)).runs[0]
    setup = set_up(run.spec, inputs_for(run.spec, None, "cpu"), "cpu", SILENT)
    return {group["name"]: group["base_lr"] for each in setup.optimisers for group in each.param_groups}


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
    ],
    ids=str,
)
def test_own_parameters_learn_at_their_published_rates(photos: Path, method: Any, expected: dict[str, float]) -> None:
    assert rates_of(photos, method, rates="published", lr=0.002) == pytest.approx(expected)


def test_without_the_condition_multiples_are_taken_as_they_are(photos: Path) -> None:
    assert rates_of(photos, "proxy_anchor", lr=0.002)["proxies"] == pytest.approx(0.2)


def test_the_ledger_prints_the_multiple_and_where_it_comes_from(photos: Path, tmp_path: Path) -> None:
    study = small_study(photos, ["proxy_anchor"], rates="published", lr=0.003)
    texts = read_result(run_one(study, tmp_path)).deviation_texts
    assert "lr of proxies x3.33333 (x1; x100 of 0.0001 as published)" in texts


def test_a_run_is_identified_by_the_rates_it_had(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        return resolve(small_study(photos, ["proxy_anchor"], rates="published")).runs[0].spec.identity

    now = identity()
    assert identity() == now
    monkeypatch.setattr("levelfield.methods._parameters.LEAST", 50.0)
    assert identity() != now


def test_the_recipe_for_photos_uses_published_rates() -> None:
    study = parse_study(photos_content())
    filled = {method.name: settings_under(method, study.conditions) for method in study.methods}
    assert filled["margin"] == {"beta_lr_multiplier": 1.0}
    assert filled["proxy_anchor"] == {"proxy_lr_multiplier": 10.0}


def test_the_first_trial_has_the_rates_of_the_study(photos: Path) -> None:
    study = small_study(photos, ["margin"], rates="published", lr=0.001)
    (method,) = study.methods
    assert own_values(study, method, space_of(study, method))["beta_lr_multiplier"] == 1.0
