"""The built-in studies: each has a name and can be read and copied."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from levelfield import library
from levelfield.data.official import names as benchmarks
from levelfield.errors import BadSpecification, UnknownName
from levelfield.studies.specification.yaml_file import content_of, located, read_study

OWN = [name for name in library.names() if "/" not in name]
BIRDS = ("bird-curves", "birds", "drml-parts", "hist-parts")
ELSEWHERE = {**dict.fromkeys(BIRDS, "cub"), "characters": "omniglot"}  # data other than the embedded images


@pytest.mark.parametrize("name", library.names())
def test_a_study_says_what_it_is_about_and_needs(name: str) -> None:
    facts = library.describe(name)
    assert facts.what
    assert len(facts.what) <= 105
    assert not facts.what.endswith(".")
    assert ("levelfield[demo]" in facts.needs) or any(data in facts.needs for data in benchmarks())
    assert Path(facts.file).is_file()


@pytest.mark.parametrize("name", OWN)
def test_a_study_of_our_own_can_be_read_and_is_called_as_its_file(name: str) -> None:
    study = read_study(name)
    assert (study.name, study.data.name) == (name, ELSEWHERE.get(name, "emoji"))


def test_the_folder_of_a_papers_study_has_the_paper_in_its_name() -> None:
    assert read_study("roth2020/table4").name == "roth2020-table4"
    assert read_study("roth2020/table4", mini=True).name == "roth2020-table4-mini"
    assert read_study("lim2022/table5", on="cars").name == "lim2022-table5-cars"
    assert read_study(library.path("roth2020/table4")).name == "roth2020-table4"


@pytest.mark.parametrize("name", ["demo", "roth2020/table4", "zheng2021/table1"])
def test_a_copy_is_the_same_study_under_its_own_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(library.copy(name), encoding="utf-8")
    assert content_of(tmp_path / "my.yaml") == content_of(name)
    assert read_study(tmp_path / "my.yaml").name == "my"


def test_a_study_may_extend_one_that_ships(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("extends: demo\nseeds: 1\n")
    study = read_study(tmp_path / "my.yaml")
    assert (study.name, study.seeds, len(study.methods)) == ("my", (0,), len(read_study("demo").methods))
    (tmp_path / "my.yaml").write_text("extends: dmo\n")
    with pytest.raises(BadSpecification, match=r"my.yaml extends dmo: .* Did you mean 'demo'\?"):
        read_study(tmp_path / "my.yaml")


def test_only_what_looks_like_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = {"data": "emoji", "methods": ["lda"]}
    for name in ("demo.yaml", "demo", "mine"):
        Path(name).write_text(yaml.safe_dump(mine))
    assert located("demo") == library.path("demo")
    for file in ("demo.yaml", "./demo", str(tmp_path / "demo"), Path("demo"), "mine"):
        assert [method.name for method in read_study(file).methods] == ["lda"]


def test_an_unknown_name_in_the_folder_of_a_paper_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'roth2020/table4'"):
        read_study("roth2020/tabel4")


@pytest.mark.parametrize(("path", "name"), [("./studies/batching.yaml", "batching"), ("demo.yaml", "demo")])
def test_a_missing_file_with_the_name_of_a_built_in_study_is_answered_with_it(
    path: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSpecification, match=f"'{name}'.*See `levelfield list studies`"):
        read_study(path)
