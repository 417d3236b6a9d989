"""Every invalid key, value, override or variant of a study is refused with a message that names the nearest valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies.specification.study import Study, parse_study
from levelfield.studies.specification.yaml_file import read_study

STUDY = "data: cub\nmethods: [margin, lda]\n"
PLAIN = {"data": "emoji", "methods": ["margin", {"triplet": {"margin": 0.1}}]}


def parsed(*overrides: str, **content: Any) -> Study:
    return parse_study({**PLAIN, **content}, overrides)


def refused(*overrides: str, **content: Any) -> str:
    with pytest.raises(BadSpecification) as error:
        parsed(*overrides, **content)
    return str(error.value)


def test_an_unknown_key_names_the_nearest() -> None:
    for content, wrong, right in (
        ({"condition": {}}, "condition", "conditions"),
        ({"metric": ["nmi"]}, "metric", "metrics"),
        ({"conditions": {"dims": 3}}, "conditions.dims", "dim"),
        ({"conditions": {"optimizer": "adam"}}, "conditions.optimizer", "optimiser"),
    ):
        assert f"unknown key '{wrong}'. Did you mean '{right}'?" in refused(**content)
    for override, right in (
        ("seed=3", "'seeds'"),
        ("dim=64", "'conditions.dim'"),
        ("optimizer=sgd", "'conditions.optimiser'"),
        ("conditions.dmi=64", "'dim'"),
        ("methods.margn.beta=1", "'margin'"),
    ):
        assert f"Did you mean {right}?" in refused(override)


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


def test_short_forms() -> None:
    methods = ["margin", {"label": "soft", "margin": {"margin": 0.1}}, "my losses.py:MyLoss"]
    assert [method.label for method in parsed(methods=methods).methods] == ["margin", "soft", "MyLoss"]
    assert [parsed(seeds=value).seeds for value in (1, 3, [7, 3])] == [(0,), (0, 1, 2), (7, 3)]
    assert parsed(figures="sweep").figures == ("sweep",)
    for value in (0, -1, [], [1, 1], [-1], True, "many", None, [0.5]):
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
        (
            {"vary": {"conditions.dim": [*range(2, 402)], "conditions.steps": [*range(1, 401)]}},
            "runs; 100,000 are the most",
        ),
        ({"conditions": {"select": "map@r"}}, "set protocol.validation"),
        ({"conditions": {"batch": "25by4"}}, "25x4"),
        ({"conditions": {"views": 3}}, "augment"),
        ({"conditions": 3}, "conditions"),
        ({"figures": ["sweep", "sweep"]}, "contains a figure twice"),
    ],
)
def test_what_makes_no_sense_is_refused(content: dict[str, Any], said: str) -> None:
    assert said in refused(**content)


def test_a_message_names_all_mistakes_once() -> None:
    text = refused(conditions={"dmi": 3, "steps": 0, "cut": "half"})
    for part in ("conditions.dmi", "conditions.steps", "unknown cut 'half'"):
        assert part in text
    assert "at least 1 item" not in refused(methods=[{"margin": 3}])  # it is only too short without the wrong entry
    for override in ("dim", "=3", ""):
        assert "is not an override" in refused(override)
    for methods in (None, "margin", [{"margin": {}, "triplet": {}}], [3]):
        assert "methods" in refused("methods.margin.beta=1", methods=methods)


def test_an_override_finds_a_method_by_any_label() -> None:
    content = {
        **PLAIN,
        "methods": [{"label": "margin v1.5", "margin": {}}, "margin", {"label": "b=0.6, D", "margin": {}}],
    }
    overrides = ["about=a=b", "methods.margin v1.5.beta=2", "methods.margin.beta=3", "methods.b=0.6, D.miner="]
    study = parse_study(content, overrides)
    assert [method.settings for method in study.methods] == [{"beta": 2}, {"beta": 3}, {"miner": None}]
    assert study.about == "a=b"
    assert content["methods"][1] == "margin"  # the content is not changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: emoji\nmethods: [margin]\nconditions: {dmi: 3}\n", "In .*mine.yaml: unknown key 'conditions.dmi'."),
        *((text, "mine.yaml") for text in ("", "- a\n", "data: [\n", "data: emoji\ndata: emoji\n", "just words")),
    ],
)
def test_a_file_is_named_in_its_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BadSpecification, match=message):
        read_study(path)
    with pytest.raises(BadSpecification, match=r"Did you mean .*mine\.yaml"):
        read_study(tmp_path / "mne.yaml")
    path.write_bytes(b"\xff\xfe\x00data")
    with pytest.raises(BadSpecification, match=r"mine\.yaml is not UTF-8 text: byte 0 is 0xff"):
        read_study(path)


def test_a_study_is_called_as_its_file_and_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("data: emoji\nmethods: [margin, {triplet: {margin: 1e-1}}]\nvary: {conditions.dim: [8, 16]}\n")
    study = read_study(path)
    assert (study.name, study.methods[1].settings) == ("mine", {"margin": 0.1})
    assert parse_study(study.model_dump(mode="json")) == study


def read(folder: Path, text: str, *overrides: str, **form: Any) -> Study:
    (folder / "s.yaml").write_text(text)
    return read_study(folder / "s.yaml", overrides, **form)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mini: [1, 2]", r"`mini` of .*s.yaml must have keys and values.*\[1, 2\]"),
        ("mini: {sedes: 1}", r"`mini` of .*s.yaml: Unknown key 'sedes'. Did you mean 'seeds'\?"),
        ("mini: {1: 2}", "`mini` of .*s.yaml: Unknown key '1'"),
        ("mini: {condtions.dim: 3}", r"the variant `mini` of .*s.yaml: unknown key 'condtions'.*'conditions'\?"),
        ("mini: {conditions.dmi: 3}", r"`mini`.*unknown key 'conditions.dmi'. Did you mean 'dim'\?"),
        ("mini: {methods.mragin.beta: 1}", r"`mini` of .*s.yaml: .*Did you mean 'margin'\?"),
        ("mini: {methods.nobody: null}", "`mini` of .*s.yaml: 'methods.nobody' does not name a method"),
        ("mini: {seeds: 1}\nclaims: [{claim: x}]", r"the variant `mini` of .*s.yaml: claims.0.*write a claim"),
        ("mini: {methods.lda: null}\nclaims: 3", "claims: "),
        ("", "has no variant --mini: add a key `mini`"),
        ("also: [cars]", "`also` of .*s.yaml must have keys and values"),
        ("also: {cars: 3}", "`also.cars` of .*s.yaml must have keys and values"),
        ("also: {cars: {conditions.dmi: 3}}", r"`also.cars` of .*: unknown key 'conditions.dmi'.*'dim'\?"),
        ("also: {cars: {sedes: 1}}", "`also.cars` of .*s.yaml: Unknown key 'sedes'"),
        ("also: {sop: {}}", "has no variant for 'cars'; it has cub, sop"),
    ],
)
def test_a_wrong_variant_is_named(tmp_path: Path, text: str, message: str) -> None:
    form: dict[str, Any] = {"on": "cars"} if "also" in text else {"mini": True}
    with pytest.raises(LevelfieldError, match=message):
        read(tmp_path, f"{STUDY}{text}\n", **form)


def test_null_leaves_a_method_out_and_is_a_value_of_a_setting(tmp_path: Path) -> None:
    methods = "methods: [{margin: {miner: semihard}}, {label: margin.miner, name: lda}, triplet]"
    forms = "mini: {methods.margin.miner: null}\nalso: {cars: {methods.triplet.miner: null}}"
    text = f"data: cub\n{methods}\n{forms}\n"
    assert [method.label for method in read(tmp_path, text, mini=True).methods] == ["margin", "triplet"]
    triplet = read(tmp_path, text, on="cars").methods[2]
    assert (triplet.label, triplet.settings) == ("triplet", {"miner": None})


def test_small_changes_mini_and_both_measure_what_claims_are_about(tmp_path: Path) -> None:
    text = (
        f"{STUDY}claims: [{{claim: margin > lda, metric: nmi}}, margin > lda]\n"
        "mini: {data: emoji, seeds: 2, conditions: {steps: 5, cut: frozen}, metrics: [recall@1]}\n"
        "small: {seeds: 3, conditions.cut: last-1}\n"
    )
    small, mini = read(tmp_path, text, small=True), read(tmp_path, text, mini=True)
    assert (small.name, small.data.name, len(small.seeds)) == ("s-small", "emoji", 3)
    assert (small.conditions.steps, small.conditions.cut, mini.conditions.cut) == (5, "last-1", "frozen")
    assert mini.metrics == ("recall@1", "nmi")
    with pytest.raises(BadSpecification, match="choose one"):
        read(tmp_path, text, mini=True, small=True)


def test_a_study_that_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = tmp_path / "base" / "b.yaml"
    base.write_text("data: emoji\nconditions: {dim: 64, steps: 5}\nmethods: [lda, margin]\n")
    extending = "extends: base/b.yaml\nconditions: {dim: 32}\nmethods: [triplet]\n"
    study = read(tmp_path, extending, "conditions.batch=4x2")
    assert (study.name, study.data.name) == ("s", "emoji")
    assert (study.conditions.dim, study.conditions.steps, study.conditions.batch) == (32, 5, "4x2")
    assert [method.label for method in study.methods] == ["triplet"]  # lists are replaced
    with pytest.raises(BadSpecification, match=r"extends base/bb.yaml: .*not found.*base/b.yaml\?"):
        read(tmp_path, "extends: base/bb.yaml\n")
    (tmp_path / "t.yaml").write_text("extends: s.yaml\n")
    with pytest.raises(BadSpecification, match="one level"):
        read_study(tmp_path / "t.yaml")
    base.write_bytes(b"\xff\xfe")
    with pytest.raises(BadSpecification, match=r"b.yaml is not UTF-8 text"):
        read(tmp_path, extending)
    with pytest.raises(BadSpecification, match=r"'folds'.*number"):
        _ = read(tmp_path, f"{STUDY}protocol: {{name: mlrc, folds: x}}\n").protocol.folds
