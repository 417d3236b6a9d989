"""`extends`: a study states only the differences from another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.errors import BadSpecification
from levelfield.studies import read_study


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "b.yaml").write_text("data: emoji\nconditions: {dim: 64, steps: 5}\nmethods: [lda, margin]\n")
    return tmp_path


def test_keys_are_merged_and_lists_replaced(base: Path) -> None:
    (base / "s.yaml").write_text("extends: base/b.yaml\nconditions: {dim: 32}\nmethods: [triplet]\n")
    study = read_study(base / "s.yaml", ["conditions.batch=4x2"])
    assert (study.name, study.data.name) == ("s", "emoji")
    assert (study.conditions.dim, study.conditions.steps, study.conditions.batch) == (32, 5, "4x2")
    assert [method.label for method in study.methods] == ["triplet"]


def test_a_missing_file_is_told_with_the_nearest(base: Path) -> None:
    (base / "s.yaml").write_text("extends: base/bb.yaml\n")
    with pytest.raises(BadSpecification, match=r"extends base/bb.yaml, but there is no such file.*base/b.yaml\?"):
        read_study(base / "s.yaml")


def test_one_level_is_enough(base: Path) -> None:
    (base / "s.yaml").write_text("extends: base/b.yaml\n")
    (base / "t.yaml").write_text("extends: s.yaml\n")
    with pytest.raises(BadSpecification, match="one level"):
        read_study(base / "t.yaml")
