"""User-defined parts of every kind: from a named file, and from an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from levelfield import evaluate, trusting
from levelfield.data import corruptions
from levelfield.embedder import backbones
from levelfield.errors import BadInput, NotTrusted
from levelfield.registry import load_plugins, references_in, short_name
from levelfield.studies.planning.plan import plan
from levelfield.studies.specification.study import parse_study
from made_parts import BY_KIND, CODE, PLUGIN, pretend_installed, works


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


@pytest.mark.parametrize("kind", BY_KIND)
def test_no_file_runs_unless_the_user_named_it(kind: str, mine: Path) -> None:
    with trusting(), pytest.raises(NotTrusted, match="--trust"):
        works(kind, f"mine.py:{BY_KIND[kind]}", mine)
    assert not (mine / "canary").exists()
    assert works(kind, f"mine.py:{BY_KIND[kind]}", mine), "here nobody restricts what runs"


def test_an_installed_package_gives_parts_of_every_kind(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pretend_installed(installed, "theirs", "theirs")
    (installed / "theirs.py").write_text(CODE + PLUGIN)
    (tmp_path / "room").mkdir()
    folders = [str(installed), str(Path(__file__).parent), *sys.path]
    script = (
        "from pathlib import Path; from made_parts import BY_KIND, works\n"
        "print(*[kind for kind in BY_KIND if works(kind, 'theirs', Path())])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path / "room", env=environment)
    assert done.stdout.split() == list(BY_KIND), done.stderr


def test_a_plugin_that_cannot_be_loaded_is_an_error_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(tmp_path, "broken", "levelfield_broken")
    (tmp_path / "levelfield_broken.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    load_plugins.cache_clear()
    for _ in range(2):
        with pytest.raises(BadInput, match=r"'broken'.*nothing_of_this_name"):
            load_plugins()


def test_a_metric_of_a_file_may_have_a_k_and_is_trusted_by_its_name(mine: Path) -> None:
    asked = "mine.py:hits@2"
    assert list(references_in({"metrics": [asked]})) == ["mine.py:hits"]
    with trusting(*references_in(asked)):
        result = evaluate(np.eye(4), [0, 0, 1, 1], metrics=[asked, "recall@1"])
    assert result.per_query[asked].shape == (4,)
    assert str(result.signature(asked)).startswith(f"{asked}|")


def test_an_edited_file_is_another_part(mine: Path) -> None:
    def keys() -> tuple[str, str, str]:
        study = {"data": "emoji", "protocol": "mine.py:protocol", "methods": [{"triplet": {"miner": "mine.py:Miner"}}]}
        return (
            corruptions.create("mine.py:corruption").key,
            backbones.create("mine.py:backbone", weights="random").weights_digest,
            plan(parse_study({**study, "seeds": 1}))[0].spec.identity,
        )

    before = keys()
    assert before == keys()
    (mine / "mine.py").write_text(CODE + "# edited\n")
    assert all(entry != other for entry, other in zip(before, keys(), strict=True))


def test_a_backbone_of_a_file_needs_weights_that_somebody_named(mine: Path) -> None:
    with pytest.raises(BadInput, match=r"'mine\.py:backbone' has no pretrained weights"):
        backbones.create("mine.py:backbone")
    assert torch.equal(*(backbones.create("mine.py:backbone", weights="random").network.weight for _ in range(2)))


@pytest.mark.parametrize("name", ["mine.py:../../up", "mine.py:", "mine.py:a/b"])
def test_a_reference_names_no_other_folder(name: str) -> None:
    with pytest.raises(BadInput, match=r"FILE\.py:Name"):
        short_name(name)
    with pytest.raises(BadInput, match=r"FILE\.py:Name"):
        corruptions.chosen([name])
