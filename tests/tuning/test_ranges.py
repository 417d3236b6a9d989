"""Search ranges: valid forms, refusals, and coverage of the papers' own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield import methods, objectives
from levelfield.errors import BadSpecification
from levelfield.ranges import Range
from levelfield.studies import parse_study
from levelfield.studies.specification.choices import MethodSpec
from levelfield.trust import trusting
from levelfield.tuning.space import applied, check_search, common_space, own_values, space_of


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ([], "is empty"),
        ([2, 2, "log"], "a single value"),
        ([5, 1, "log"], r"reversed: \[5, 1, log\]. Did you mean \[1, 5, log\]"),
        (["a", 1, "log"], "bound 'a'; expected a number"),
        ([float("nan"), 1, "linear"], "expected a number"),
        ([True, 1, "linear"], "expected a number"),
        ([0, 1, "log"], "above 0"),
        ([0.1], "at least 2 different"),
        ([1, 1], "at least 2 different"),
        (0.5, "use \\[low, high, log\\]"),
    ],
)
def test_a_range_that_cannot_be_searched_is_refused(written: Any, told: str) -> None:
    with pytest.raises(BadSpecification, match=told):
        Range.parse("margin.beta", written)


def test_a_value_of_a_range_is_inside_and_its_share_leads_back() -> None:
    for span in (Range(0.02, 0.5, log=True), Range(-1.0, 3.0), Range(1, 64, log=True, whole=True)):
        for share in (0.0, 0.3, 0.77, 1.0):
            value = span.at(share)
            assert value in span
            assert span.share(value) == pytest.approx(share, abs=0.05)
    assert Range(choices=("a", "b", "c")).share("b") == 0.5
    assert isinstance(Range(1, 64, log=True, whole=True).at(0.4), int)


def demo(**more: Any) -> Any:
    return parse_study({"data": "emoji", "methods": ["margin", {"label": "mine", "triplet": {}}], **more})


RANGE = [1, 2, "linear"]


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"margn.beta": RANGE}, "names no method of the study. Did you mean 'margin.beta'"),
        ({"margin.bta": RANGE}, "has no setting 'bta'.*Did you mean 'beta'"),
        ({"conditions.lrr": RANGE}, "unknown condition 'lrr'.*Did you mean 'conditions.lr'"),
        ({"common.dimm": RANGE}, "Did you mean 'common.dim'"),
        ({"margin.miner": ["all", "semihard"], "margin.miner.lower": [0.1, 1, "log"]}, "'margin.miner' replaces"),
        ({"margin.beta": [0.1, 1, "log"]}, "also in `vary`"),
        ({"common.dim": [8, 16]}, "also in `vary`"),
        ({"conditions.select": ["recall@1", "map@r"]}, "'conditions.select' cannot be searched: selection and"),
        ({"common.threads": [1, 2]}, "machine setting"),
    ],
)
def test_a_range_of_something_unknown_or_without_effect_is_refused(search: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSpecification, match=told):
        check_search(demo(search=search, vary={"methods.margin.beta": [0.6, 1.2], "conditions.dim": [8, 16]}))


def test_a_study_narrows_and_adds_ranges() -> None:
    study = demo(
        search={
            "margin.beta": [0.5, 0.7, "linear"],
            "mine.margin": [0.1, 0.2, "log"],
            "conditions.trunk_lr": [1e-5, 1e-3, "log"],
            "common.steps": [100, 400, "log"],
        }
    )
    check_search(study)
    assert all("conditions.trunk_lr" not in space_of(study, method) for method in study.methods), "a frozen trunk"
    study = study.model_copy(update={"conditions": study.conditions.model_copy(update={"cut": "last-1"})})
    spaces = {method.label: space_of(study, method) for method in study.methods}
    assert spaces["margin"]["beta"] == Range(0.5, 0.7)
    assert spaces["mine"]["margin"] == Range(0.1, 0.2, log=True)
    assert "conditions.trunk_lr" in spaces["margin"]
    assert "conditions.trunk_lr" in spaces["mine"]
    assert common_space(study) == {"steps": Range(100, 400, log=True, whole=True)}


def test_a_value_lands_where_the_study_file_would_write_it() -> None:
    method = MethodSpec(name="margin", settings={"miner": {"distance_weighted": {"upper": None}}})
    made = applied(method, {"beta": 1.0, "miner.lower": 0.3, "conditions.lr": 0.01, "conditions.trunk_lr": 0.1})
    assert made.settings == {"miner": {"distance_weighted": {"upper": None, "lower": 0.3}}, "beta": 1.0, "lr": 0.01}
    assert made.conditions == {"trunk_lr": 0.1}
    assert applied(MethodSpec(name="triplet"), {"conditions.batch": "5x2"}).settings == {"batch": "5x2"}
    preset = MethodSpec(name="margin", settings={"preset": "roth2020/cub"})
    [(name, settings)] = applied(preset, {"miner.lower": 0.3}).settings["miner"].items()
    assert (name, settings["lower"], settings["upper"]) == ("distance_weighted", 0.3, None)


def test_parts_of_a_method_bring_their_ranges() -> None:
    assert "miner.lower" in methods.search_ranges("margin", {"miner": "distance_weighted"})
    assert "batching.candidates" in methods.search_ranges("margin", {"batching": "frd"})
    assert "switch" in methods.search_ranges("margin", {"switch": 0.35})
    assert "settings.alpha" in methods.search_ranges("drml", {"objective": "proxy_anchor"})


OURS = 0.003
BASE_RATES = {"lim2022": 1e-6, "fehervari2019": 1e-4}  # of the network, where multipliers of proxies are large
PAPERS = ("fehervari2019", "roth2020", "lim2022", "seidenschwarz2021", "zheng2021")


@pytest.mark.parametrize("name", [name for name in objectives.names() if objectives.describe(name).search])
def test_the_settings_of_the_papers_are_within_the_ranges(name: str) -> None:
    facts = objectives.describe(name)
    for key, written in facts.search.items():
        span = Range.parse(f"{name}.{key}", written)
        for preset, settings in {**facts.presets, "default": facts.defaults}.items():
            paper, value = preset.split("/")[0], settings.get(key)
            if paper in (*PAPERS, "default") and value is not None:
                rescaled = value * BASE_RATES.get(paper, OURS) / OURS if key.endswith("lr_multiplier") else value
                told = f"{name}.{key} of {preset} is {value} ({rescaled} at our rate), not within {span.text}"
                assert value in span or rescaled in span, told


def own(written: Any, **more: Any) -> dict[str, Any]:
    study = parse_study({"data": "emoji", "methods": [written], **more})
    return own_values(study, study.methods[0], space_of(study, study.methods[0]))


def test_trial_0_has_the_values_of_preset_parts_and_conditions() -> None:
    assert own({"hist": {"preset": "lim2022/cub"}})["tau"] == objectives.describe("hist").presets["lim2022/cub"]["tau"]
    assert own({"hist": {"preset": "lim2022/cub", "tau": 7.0}})["tau"] == 7.0
    assert own({"margin": {"miner": {"distance_weighted": {"lower": 0.3}}}})["miner.lower"] == 0.3
    assert own({"drml": {"objective": "proxy_anchor", "settings": {"alpha": 9}}})["settings.alpha"] == 9
    rates = {"conditions.lr": [1e-4, 1e-1, "log"], "conditions.trunk_lr": [1e-6, 1e-1, "log"]}
    found = own({"triplet": {"lr": 0.02}}, search=rates, conditions={"trunk_lr": 0.004, "cut": "last-1"})
    assert (found["conditions.lr"], found["conditions.trunk_lr"]) == (0.02, 0.004)


INTEGERS = """
class Counting:
    search = {"bins": (4, 64, "log")}

    def __init__(self, bins: int = 8, scale: float = 1.0): ...
"""


def test_integers_of_own_classes_and_wrapped_objectives_stay_integers(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(INTEGERS)
    study = parse_study(
        {"data": "emoji", "methods": [f"{tmp_path}/counting.py:Counting", {"drml": {"objective": "fast_ap"}}]}
    )
    with trusting(f"{tmp_path}/counting.py:Counting"):
        spaces = [space_of(study, method) for method in study.methods]
    assert isinstance(spaces[0]["bins"].at(0.4), int)
    assert isinstance(spaces[1]["settings.bins"].at(0.4), int)


def test_a_class_whose_ranges_are_no_mapping_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("class Odd:\n    search = 5\n")
    with trusting(f"{tmp_path}/odd.py:Odd"), pytest.raises(BadSpecification, match=r"`search` of .* is 5; expected"):
        methods.search_ranges(f"{tmp_path}/odd.py:Odd")


def test_a_loss_of_another_library_has_the_ranges_of_the_study() -> None:
    study = parse_study(
        {"data": "emoji", "methods": ["pml:TripletMarginLoss"], "search": {"TripletMarginLoss.margin": [0.1, 1, "log"]}}
    )
    assert methods.search_ranges("pml:TripletMarginLoss") == {}
    assert space_of(study, study.methods[0]) == {"margin": Range(0.1, 1.0, log=True)}


def test_what_is_kept_or_varied_or_searched_as_a_whole_is_not_searched_in_part() -> None:
    margin = {"margin": {"miner": "distance_weighted"}}
    whole = parse_study(
        {"data": "emoji", "methods": [margin], "search": {"margin.miner": ["semihard", "distance_weighted"]}}
    )
    assert not [key for key in space_of(whole, whole.methods[0]) if key.startswith("miner.")]
    kept = parse_study({"data": "emoji", "methods": [margin], "search": {"margin.beta": None}})
    assert set(space_of(kept, kept.methods[0])) == set(methods.search_ranges("margin", margin["margin"])) - {"beta"}
    varied = parse_study({"data": "emoji", "methods": [margin], "vary": {"methods.margin.beta": [0.6, 1.2]}})
    assert "beta" not in space_of(varied, varied.methods[0])
