"""Generated photos and a separate cache; the user's files are not touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import small_world
import torch

from levelfield.distributed import processes


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Features are computed once for all tests of a process, in a temporary folder."""
    torch.set_num_threads(1)
    before = os.environ.get("LEVELFIELD_CACHE")
    os.environ["LEVELFIELD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["LEVELFIELD_CACHE"]
    else:
        os.environ["LEVELFIELD_CACHE"] = before


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 classes of 5 images."""
    return small_world.make_photos(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a study start at once instead of importing torch for seconds; all else is as it is."""
    context = small_world.processes()
    monkeypatch.setattr(processes, "context", lambda: context)
