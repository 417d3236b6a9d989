"""When a command ends, its processes end soon after; and files in the working directory do not break them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from small_world import SMALL

SECONDS = 5.0  # within which everything has to be gone
LOSS = """
import time
from pathlib import Path
import torch
from torch import nn

class Busy(nn.Module):
    '''Computes without end, and holds on to the interpreter as long as Python lets it.'''
    def forward(self, embeddings, labels):
        Path(__file__).with_name("begun").touch()
        rows = torch.rand(300, 300)
        while True:
            rows = (rows @ rows).clamp(0, 1)
"""


@pytest.fixture
def command(photos: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`levelfield compare` as it is installed, in a session of its own; in its folder lies a file `signal.py`."""
    (tmp_path / "losses.py").write_text(LOSS)
    (tmp_path / "signal.py").write_text("raise RuntimeError('not this file')\n")
    methods = ["losses.py:Busy", "contrastive"]
    study = {"data": str(photos), "methods": methods, "conditions": {**SMALL, "steps": 100_000}, "seeds": 2}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "levelfield").write_text("from levelfield.cli import main\nmain()\n")
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "bin/levelfield", "compare", "study.yaml", "--jobs", "2", "--out", "runs"],
        stderr=log,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=_hears_ctrl_c,
    )
    yield process
    if members(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    log.close()


def _hears_ctrl_c() -> None:
    """Tests that run in the background are deaf to Ctrl-C, and so would be the command."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def members(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(number) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_for(happened: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["TERM", "INT", "KILL"])
def test_all_processes_of_a_command_end_with_it(command: subprocess.Popen[bytes], tmp_path: Path, how: str) -> None:
    def both_train() -> bool:
        assert command.poll() is None, (tmp_path / "log").read_text()
        return (tmp_path / "begun").exists() and any(tmp_path.glob("runs/*/contrastive/*/log.jsonl"))

    wait_for(both_train, 120)
    assert len(members(command.pid)) >= 3, "the command and two workers"
    if how == "INT":
        os.killpg(command.pid, signal.SIGINT)
    else:
        command.send_signal(getattr(signal, f"SIG{how}"))
    wait_for(lambda: command.poll() is not None and not members(command.pid), SECONDS)
