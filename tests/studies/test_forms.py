"""`mini` and `also`: what is wrong with them is told in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.studies import read_study

STUDY = "data: cub\nmethods: [margin, lda]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mini: [1, 2]", r"`mini` of .*s.yaml needs keys and values.*\[1, 2\]"),
        ("mini: {sedes: 1}", "Unknown key 'sedes'. Did you mean 'seeds'?"),
        ("mini: {methods.nobody: null}", "Unknown method to leave out 'nobody'"),
        ("mini: {seeds: 1}\nclaims: [{claim: x}]", "the small form of .*s.yaml: claims.0.*write a claim as `a > b`"),
        ("mini: {methods.lda: null}\nclaims: 3", "claims: "),
    ],
)
def test_a_wrong_small_form(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}{text}\n")
    with pytest.raises(LevelfieldError, match=said):
        read_study(tmp_path / "s.yaml", mini=True)


@pytest.mark.parametrize("text", ["also: [cars]", "also: {cars: 3}"])
def test_a_wrong_form_for_other_data(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}{text}\n")
    with pytest.raises(BadSpecification, match=r"`also.* of .*s.yaml needs keys and values"):
        read_study(tmp_path / "s.yaml", on="cars")


def test_metrics_of_claims_are_measured_in_the_small_form(tmp_path: Path) -> None:
    claims = "claims: [{claim: margin > lda, metric: nmi}, margin > lda]"
    (tmp_path / "s.yaml").write_text(f"{STUDY}{claims}\nmini: {{metrics: [recall@1]}}\n")
    assert read_study(tmp_path / "s.yaml", mini=True).metrics == ("recall@1", "nmi")


def test_a_file_that_is_no_text_cannot_be_extended(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "s.yaml").write_text(f"extends: b.yaml\n{STUDY}")
    with pytest.raises(BadSpecification, match=r"b.yaml is not readable YAML"):
        read_study(tmp_path / "s.yaml")


def test_folds_are_a_number(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{STUDY}protocol: {{name: mlrc, folds: x}}\n")
    with pytest.raises(BadSpecification, match=r"'folds'.*number"):
        _ = read_study(tmp_path / "s.yaml").protocol.folds
