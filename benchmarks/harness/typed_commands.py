"""`levelfield` commands in processes of their own, as typed by a user; one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

LINES = 12  # of the end of what a failed command printed


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The last lines it printed, indented."""
        return "\n".join(f"    {line}" for line in (self.err or self.out).strip().splitlines()[-LINES:])


def in_new_process(words: list[str]) -> Ended:
    done = subprocess.run(_typed(words), capture_output=True, text=True, env=_environment(), check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def killed_when(words: list[str], ready: Callable[[], bool]) -> bool:
    """Start a command and kill it with all its processes as soon as it is `ready`. Returns whether it was killed,
    which it was not if it ended before."""
    with tempfile.TemporaryFile() as nowhere:
        process = subprocess.Popen(
            _typed(words), stdout=nowhere, stderr=nowhere, env=_environment(), start_new_session=True
        )
        while process.poll() is None and not ready():
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own group, since it has a session of its own
        return process.wait() == -signal.SIGKILL


def _typed(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "levelfield", *words]


def _environment() -> dict[str, str]:
    """One thread per process, compiled files kept, and lines that are not cut."""
    kept = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept
