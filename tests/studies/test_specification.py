"""Every invalid key, value or override of a study is refused with a message that names the nearest valid one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield.errors import BadSpecification
from levelfield.studies.specification.study import Study, parse_study
from levelfield.studies.specification.yaml_file import read_study

PLAIN = {"data": "emoji", "methods": ["margin", {"triplet": {"margin": 0.1}}]}


def parsed(*overrides: str, **content: Any) -> Study:
    return parse_study({**PLAIN, **content}, overrides)


def refused(*overrides: str, **content: Any) -> str:
    with pytest.raises(BadSpecification) as error:
        parsed(*overrides, **content)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "wrong", "right"),
    [
        ({"condition": {}}, "condition", "conditions"),
        ({"metric": ["nmi"]}, "metric", "metrics"),
        ({"conditions": {"dims": 3}}, "conditions.dims", "dim"),
        ({"conditions": {"optimizer": "adam"}}, "conditions.optimizer", "optimiser"),
        ({"protocol": {"validate": 0.2}}, "protocol.validate", "validation"),
    ],
)
def test_an_unknown_key_names_the_nearest(content: dict[str, Any], wrong: str, right: str) -> None:
    assert f"unknown key '{wrong}'. Did you mean '{right}'?" in refused(**content)


@pytest.mark.parametrize(
    ("override", "right"),
    [
        ("seed=3", "'seeds'"),
        ("dim=64", "'conditions.dim'"),
        ("optimizer=sgd", "'conditions.optimiser'"),
        ("conditions.dmi=64", "'dim'"),
        ("methods.margn.beta=1", "'margin'"),
        ("protocol.validaton=0.1", "'validation'"),
    ],
)
def test_an_unknown_key_in_an_override_names_the_nearest(override: str, right: str) -> None:
    assert f"Did you mean {right}?" in refused(override)


def test_all_that_is_wrong_is_said_at_once() -> None:
    said = refused(conditions={"dmi": 3, "steps": 0, "cut": "half"})
    assert "conditions.dmi" in said
    assert "conditions.steps" in said
    assert "unknown cut 'half'" in said


def test_a_wrong_entry_is_not_told_twice() -> None:
    assert "at least 1 item" not in refused(methods=[{"margin": 3}])
    assert "at least 1 item" in refused(methods=[])


def test_overrides_reach_every_place() -> None:
    study = parsed(
        "conditions.dim=64",
        "conditions.lr=1e-4",
        "conditions.taps=[blocks.3, final]",
        "seeds=5",
        "data=photos",
        "data.skip_unreadable=true",
        "protocol.validation=0.2",
        "metrics=nmi",
        "methods.margin.beta=0.6",
        "name=other",
    )
    assert (study.conditions.dim, study.conditions.lr, study.conditions.taps) == (64, 1e-4, ("blocks.3", "final"))
    assert study.seeds == (0, 1, 2, 3, 4)
    assert (study.data.name, study.data.settings) == ("photos", {"skip_unreadable": True})
    assert (study.protocol.name, study.protocol.validation) == ("standard", 0.2)
    assert (study.metrics, study.name) == (("nmi",), "other")
    assert study.methods[0].settings == {"beta": 0.6}
    assert study.methods[1].settings == {"margin": 0.1}


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parsed("about=a=b").about == "a=b"


def test_a_setting_is_reached_by_label_even_with_dots_and_spaces() -> None:
    methods = [{"label": "margin v1.5", "margin": {}}, "margin"]
    study = parsed("methods.margin v1.5.beta=2", "methods.margin.beta=3", methods=methods)
    assert [method.settings for method in study.methods] == [{"beta": 2}, {"beta": 3}]


def test_an_override_reaches_a_method_whose_label_contains_the_sign() -> None:
    methods = ["margin", {"label": "margin (beta=0.6, D)", "margin": {"beta": 0.6}}]
    study = parsed("methods.margin (beta=0.6, D).batch=4x2", "methods.margin (beta=0.6, D).miner=", methods=methods)
    assert study.methods[0].settings == {}
    assert study.methods[1].settings == {"beta": 0.6, "batch": "4x2", "miner": None}


def test_an_override_leaves_what_was_given_alone() -> None:
    given = {**PLAIN, "conditions": {"dim": 8}}
    parse_study(given, ["conditions.dim=64", "methods.margin.beta=1"])
    assert given == {**PLAIN, "conditions": {"dim": 8}}


@pytest.mark.parametrize("override", ["dim", "=3", ""])
def test_what_is_no_override_is_refused(override: str) -> None:
    assert "is not an override" in refused(override)


@pytest.mark.parametrize(("value", "seeds"), [(1, (0,)), (3, (0, 1, 2)), ([7, 3], (7, 3))])
def test_seeds_are_a_count_or_a_list(value: Any, seeds: tuple[int, ...]) -> None:
    assert parsed(seeds=value).seeds == seeds


@pytest.mark.parametrize("value", [0, -1, [], [1, 1], [-1], True, "many", None, [0.5]])
def test_other_seeds_are_refused(value: Any) -> None:
    assert "seed" in refused(seeds=value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"methods": ["margin", "margin"]}, "two methods are called 'margin'"),
        ({"methods": []}, "methods"),
        ({"methods": [{"margin": {}, "triplet": {}}]}, "margin, triplet"),
        ({"methods": [{"label": "a/b", "margin": {}}]}, "cannot be a folder name"),
        ({"name": "../out"}, "cannot be a folder name"),
        ({"metrics": []}, "metrics"),
        ({"metrics": ["nmi", "nmi"]}, "contains a metric twice"),
        ({"vary": {"conditions.dim": []}}, "conditions.dim"),
        ({"vary": {"conditions.dim": [8, 8]}}, "a list of distinct values"),
        ({"vary": {"seeds": [1, 2]}}, "'seeds' cannot vary"),
        ({"conditions": {"select": "map@r"}}, "set protocol.validation"),
        ({"conditions": {"batch": "25by4"}}, "25x4"),
        ({"conditions": {"views": 3}}, "augment"),
        ({"conditions": 3}, "conditions"),
    ],
)
def test_what_makes_no_sense_is_refused(content: dict[str, Any], said: str) -> None:
    assert said in refused(**content)


@pytest.mark.parametrize("methods", [None, "margin", [{"margin": {}, "triplet": {}}], [3]])
def test_an_override_into_unreadable_methods_is_an_error_in_words(methods: Any) -> None:
    assert "methods" in refused("methods.margin.beta=1", methods=methods)


def test_the_same_loss_may_stand_twice_under_two_labels() -> None:
    study = parsed(methods=["margin", {"label": "soft", "margin": {"margin": 0.1}}, "my losses.py:MyLoss"])
    assert [method.label for method in study.methods] == ["margin", "soft", "MyLoss"]


def test_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: emoji\nmethods: [margin]\nconditions: {dmi: 3}\n")
    with pytest.raises(BadSpecification, match=r"In .*mine.yaml: unknown key 'conditions.dmi'. Did you mean 'dim'"):
        read_study(path)


@pytest.mark.parametrize("text", ["", "- a\n", "data: [\n", "data: emoji\ndata: emoji\n", "just words"])
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadSpecification, match=r"mine\.yaml"):
        read_study(path)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00data")
    with pytest.raises(BadSpecification, match="is not UTF-8 text"):
        read_study(path)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").touch()
    with pytest.raises(BadSpecification, match=r"Did you mean .*demo\.yaml"):
        read_study(tmp_path / "dmo.yaml")


def test_a_study_is_called_as_its_file_and_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: emoji\nmethods: [margin, {triplet: {margin: 1e-1}}]\nvary: {conditions.dim: [8, 16]}\n")
    study = read_study(path)
    assert (study.name, study.methods[1].settings) == ("mine", {"margin": 0.1})
    assert parse_study(study.model_dump(mode="json")) == study


def test_the_demo_of_the_library_is_a_study() -> None:
    assert read_study("demo").seeds == (0, 1, 2)


def test_a_figure_may_stand_alone_and_none_stands_twice() -> None:
    assert parsed(figures="sweep").figures == ("sweep",)
    assert "contains a figure twice" in refused(figures=["sweep", "sweep"])
