"""`extends`, `mini`, `small` and `also`: a study that states only the differences from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import Study, read_study

STUDY = "data: cub\nmethods: [margin, lda]\n"


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
        ("mini: {methods.nobody: null}", "`mini` of .*s.yaml: Unknown method to remove 'nobody'"),
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


def test_folds_are_a_number(tmp_path: Path) -> None:
    with pytest.raises(BadSpecification, match=r"'folds'.*number"):
        _ = read(tmp_path, f"{STUDY}protocol: {{name: mlrc, folds: x}}\n").protocol.folds
