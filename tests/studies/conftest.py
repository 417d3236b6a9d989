"""Generated photos, losses that misbehave, and a separate cache; the user's files are not touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_world
import torch

from levelfield.distributed import processes

LOSSES = '''
import os, time
from pathlib import Path
import torch
from torch import nn

with open(Path(__file__).with_name("executions"), "a") as file:
    file.write(f"{os.getpid()}\\n")

class Fine(nn.Module):
    def forward(self, embeddings, labels):
        return embeddings.square().mean()

class Broken(Fine):
    def forward(self, embeddings, labels):
        if Path(__file__).with_name("broken").exists():
            raise ValueError("the batch [0] is odd")
        return super().forward(embeddings, labels)

class Dies(Fine):
    def forward(self, embeddings, labels):
        os._exit(7)

class Killed(Fine):
    def forward(self, embeddings, labels):
        os.kill(os.getpid(), 9)

class Waits(Fine):
    def forward(self, embeddings, labels):
        begun, go = (Path(__file__).with_name(name) for name in ("begun", "go"))
        begun.touch()
        until = time.monotonic() + 60
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.02)
        return super().forward(embeddings, labels)

class Marks(Fine):
    """Leaves a file named after the GPUs that its process sees."""
    def forward(self, embeddings, labels):
        Path(__file__).with_name(os.environ["CUDA_VISIBLE_DEVICES"]).touch()
        return super().forward(embeddings, labels)

class Meets(Fine):
    """Each run waits in its first step until runs of two commands have begun."""
    def __init__(self):
        super().__init__()
        self.told = False

    def forward(self, embeddings, labels):
        begun = Path(__file__).with_name("begun")
        if not self.told:
            with begun.open("a") as file:
                file.write(f"{os.getppid()}\\n")
            self.told = True
            until = time.monotonic() + 30
            while len(set(begun.read_text().split())) < 2 and time.monotonic() < until:
                time.sleep(0.02)
        return super().forward(embeddings, labels)

class Busy(Fine):
    """Computes without end, and holds on to the interpreter as long as Python lets it."""
    def forward(self, embeddings, labels):
        Path(__file__).with_name("begun").touch()
        rows = torch.rand(300, 300)
        while True:
            rows = (rows @ rows).clamp(0, 1)
'''


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    path = tmp_path / "losses.py"
    path.write_text(LOSSES)
    return path


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Features are computed once for all tests of a process, in a temporary folder."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEVELFIELD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 classes of 5 images."""
    return small_world.make_photos(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture
def quick_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a study start at once instead of importing torch for seconds; all else is as it is."""
    context = small_world.processes()
    monkeypatch.setattr(processes, "context", lambda: context)
