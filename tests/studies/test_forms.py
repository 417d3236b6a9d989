"""`mini`, `small` and `also`: variants of a study; errors give one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import read_study

STUDY = "data: cub\nmethods: [margin, lda]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mini: [1, 2]", r"`mini` of .*s.yaml must have keys and values.*\[1, 2\]"),
        ("mini: {sedes: 1}", "Unknown key 'sedes'. Did you mean 'seeds'?"),
        ("mini: {methods.nobody: null}", "Unknown method to remove 'nobody'"),
        (
            "mini: {seeds: 1}\nclaims: [{claim: x}]",
            r"the variant `mini` of .*s.yaml: claims.0.*write a claim",
        ),
        ("mini: {methods.lda: null}\nclaims: 3", "claims: "),
    ],
)
def test_a_wrong_small_form(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}{text}\n")
    with pytest.raises(LevelfieldError, match=said):
        read_study(tmp_path / "s.yaml", mini=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "mini: {condtions.dim: 3}",
            r"the variant `mini` of .*s.yaml: unknown key 'condtions'.*'conditions'\?",
        ),
        ("mini: {conditions.dmi: 3}", r"`mini`.*unknown key 'conditions.dmi'. Did you mean 'dim'\?"),
        ("mini: {sedes: 1}", r"`mini` of .*s.yaml: Unknown key 'sedes'. Did you mean 'seeds'\?"),
        ("mini: {methods.mragin.beta: 1}", r"`mini` of .*s.yaml: .*Did you mean 'margin'\?"),
        ("mini: {methods.margin.bta: 1}", r"`mini` of .*s.yaml: Method 'margin'.*Did you mean 'beta'\?"),
        ("mini: {1: 2}", "`mini` of .*s.yaml: Unknown key '1'"),
        ("mini: {methods.nobody: null}", "`mini` of .*s.yaml: Unknown method to remove 'nobody'"),
        ("also: {sop: {}, cars: {conditions.dmi: 3}}", r"`also.cars` of .*: unknown key 'conditions.dmi'.*'dim'\?"),
        ("also: {sop: {}, cars: {data: sop}}", r"`also.cars` of .*, but its data is 'sop': call it `also.sop`"),
        ("also: {sop: {}, cars: {data.name: sop}}", r"`also.cars` of .*, but its data is 'sop'"),
        ("also: {sop: {}, cars: 3}", r"`also.cars` of .*s.yaml must have keys and values"),
        ("also: {sop: {}, cars: {sedes: 1}}", r"`also.cars` of .*s.yaml: Unknown key 'sedes'"),
    ],
)
@pytest.mark.parametrize("form", [{}, {"mini": True}, {"on": "sop"}])
def test_a_wrong_form_is_told_whichever_is_asked_for(
    tmp_path: Path, text: str, said: str, form: dict[str, Any]
) -> None:
    others = "" if "also" in text else "\nalso: {sop: {}}"
    small = "" if "mini" in text else "\nmini: {seeds: 1}"
    (tmp_path / "s.yaml").write_text(f"{STUDY}{text}{others}{small}\n")
    with pytest.raises(LevelfieldError, match=said):
        read_study(tmp_path / "s.yaml", **form)


def test_null_leaves_a_method_out_and_is_a_value_of_a_setting(tmp_path: Path) -> None:
    methods = "methods: [{margin: {miner: semihard}}, {label: margin.miner, name: lda}, triplet]"
    (tmp_path / "s.yaml").write_text(
        f"data: cub\n{methods}\nmini: {{methods.margin.miner: null}}\nalso: {{cars: {{methods.triplet.miner: null}}}}\n"
    )
    assert [one.label for one in read_study(tmp_path / "s.yaml", mini=True).methods] == ["margin", "triplet"]
    triplet = read_study(tmp_path / "s.yaml", on="cars").methods[2]
    assert (triplet.label, triplet.settings) == ("triplet", {"miner": None})


def test_the_changes_of_small_come_after_those_of_mini(tmp_path: Path) -> None:
    forms = (
        "mini: {data: emoji, seeds: 2, conditions: {steps: 5, cut: frozen}}\nsmall: {seeds: 3, conditions.cut: last-1}"
    )
    (tmp_path / "s.yaml").write_text(f"{STUDY}{forms}\n")
    small = read_study(tmp_path / "s.yaml", small=True)
    assert (small.name, small.data.name, len(small.seeds)) == ("s-small", "emoji", 3)
    assert (small.conditions.steps, small.conditions.cut) == (5, "last-1")
    assert read_study(tmp_path / "s.yaml", mini=True).conditions.cut == "frozen"
    with pytest.raises(BadSpecification, match="choose one"):
        read_study(tmp_path / "s.yaml", mini=True, small=True)


def test_a_variant_that_a_study_does_not_have_and_one_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}mini: {{seeds: 1}}\n")
    with pytest.raises(BadSpecification, match="has no variant --small: add a key `small`"):
        read_study(tmp_path / "s.yaml", small=True)
    (tmp_path / "s.yaml").write_text(f"{STUDY}mini: {{seeds: 1}}\nsmall: {{sedes: 3}}\n")
    with pytest.raises(LevelfieldError, match=r"`small` of .*s.yaml: Unknown key 'sedes'. Did you mean 'seeds'\?"):
        read_study(tmp_path / "s.yaml", mini=True)


@pytest.mark.parametrize("text", ["also: [cars]", "also: {cars: 3}"])
def test_a_wrong_form_for_other_data(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}{text}\n")
    with pytest.raises(BadSpecification, match=r"`also.* of .*s.yaml must have keys and values"):
        read_study(tmp_path / "s.yaml", on="cars")


def test_metrics_of_claims_are_measured_in_the_small_form(tmp_path: Path) -> None:
    claims = "claims: [{claim: margin > lda, metric: nmi}, margin > lda]"
    (tmp_path / "s.yaml").write_text(f"{STUDY}{claims}\nmini: {{metrics: [recall@1]}}\n")
    assert read_study(tmp_path / "s.yaml", mini=True).metrics == ("recall@1", "nmi")


def test_a_file_that_is_no_text_cannot_be_extended(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "s.yaml").write_text(f"extends: b.yaml\n{STUDY}")
    with pytest.raises(BadSpecification, match=r"b.yaml is not UTF-8 text"):
        read_study(tmp_path / "s.yaml")


def test_folds_are_a_number(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}protocol: {{name: mlrc, folds: x}}\n")
    with pytest.raises(BadSpecification, match=r"'folds'.*number"):
        _ = read_study(tmp_path / "s.yaml").protocol.folds
