"""Photos generated once; one thread, so that times and bits equal those of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drawn_photos import make_photos
from one_process import make_networks_once


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _networks_are_made_once():
    with pytest.MonkeyPatch.context() as patch:
        make_networks_once(patch)
        yield


@pytest.fixture(scope="session")
def training_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 classes of 5 images of 40 pixels."""
    return make_photos(tmp_path_factory.mktemp("training_photos") / "photos")


@pytest.fixture(scope="session")
def training_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training_cache")
