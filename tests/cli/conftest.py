"""Fixtures: photos, small studies, and `levelfield` commands run in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml
from cli_room import Ended, Levelfield, make_photos

from levelfield.cli import console as cli_console
from levelfield.cli import main
from levelfield.embedder.trunk import backbones
from one_process import stay_in_this_process

SMALL = {"backbone": "test_resnet", "weights": "w.safetensors", "image": 32, "dim": 8, "steps": 2, "batch": "4x2"}


@pytest.fixture(scope="session", autouse=True)
def _in_this_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVELFIELD_CACHE", str(tmp_path_factory.mktemp("cache")))
        stay_in_this_process(patch)
        yield


@pytest.fixture(autouse=True)
def _wide_consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_console.console, "_width", 100)
    monkeypatch.setattr(cli_console.error_console, "_width", 100)
    torch.set_num_threads(1)


@pytest.fixture
def levelfield(capfd: pytest.CaptureFixture[str]) -> Levelfield:
    """One command: `levelfield("list", "metrics").printed`."""

    def run(*arguments: str | Path) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Ended(end.value.code, out, err)

    return run


@pytest.fixture(scope="session")
def whole_room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, weights and a study; copied for each test that may change them."""
    room = tmp_path_factory.mktemp("room")
    make_photos(room / "photos")
    network = backbones.create("test_resnet", weights="random").network
    safetensors.torch.save_file(network.state_dict(), room / "w.safetensors")
    study = {
        "data": "photos",
        "conditions": SMALL,
        "methods": ["lda", "contrastive", "normalized_softmax"],
        "seeds": 2,
        "metrics": ["recall@1", "map@r"],
    }
    (room / "small.yaml").write_text(yaml.safe_dump(study))
    return room


@pytest.fixture
def room(whole_room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test: its own copy of the room."""
    shutil.copytree(whole_room, tmp_path / "room")
    monkeypatch.chdir(tmp_path / "room")
    return tmp_path / "room"


@pytest.fixture(scope="session")
def room_after(
    whole_room: Path, tmp_path_factory: pytest.TempPathFactory, _in_this_process: None
) -> Callable[..., Path]:
    """A room in which a command was run, to be copied or only read."""

    def run(*words: str) -> Path:
        home = tmp_path_factory.mktemp("after") / "room"
        shutil.copytree(whole_room, home)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(home)
            with pytest.raises(SystemExit) as end:
                main(["-q", *words])
        assert end.value.code == 0
        return home

    return run


@pytest.fixture(scope="session")
def compared_once(room_after: Callable[..., Path]) -> Path:
    return room_after("compare", "small.yaml")


@pytest.fixture
def compared(compared_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The room after `levelfield compare small.yaml`: a copy."""
    shutil.copytree(compared_once, tmp_path / "compared")
    monkeypatch.chdir(tmp_path / "compared")
    return tmp_path / "compared"


@pytest.fixture
def trained(compared: Path) -> Path:
    """The folder of one trained run."""
    return next((compared / "runs" / "small" / "contrastive").glob("seed0-*"))


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with embeddings of test and of validation classes."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for rows, labels, first in (("e.npy", "y.npy", 0), ("v.npy", "vy.npy", 100)):
        classes = np.repeat(np.arange(10), 5)
        np.save(rows, (random.normal(size=(10, 8))[classes] + random.normal(size=(50, 8))).astype(np.float32))
        np.save(labels, first + classes)
    return tmp_path
