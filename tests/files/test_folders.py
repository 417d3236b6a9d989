"""Temporary files and folders end with their block; those of killed processes are removed by the next one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from levelfield.files.folders import scratch_folder
from levelfield.files.writing import temporary_path, write_text


def test_a_scratch_folder_is_removed_also_after_an_error(tmp_path: Path) -> None:
    def fail(place: Path) -> None:
        assert place.stat().st_mode & 0o777 == 0o700
        (place / "inside").mkdir()
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"), scratch_folder(tmp_path / "new", "run") as place:
        fail(place)
    assert list((tmp_path / "new").iterdir()) == []


def test_only_folders_of_dead_processes_of_this_machine_and_name_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    here = socket.gethostname()
    dead = f"run~{here}~{ended.pid}~a"
    kept = {f"run~{here}~{os.getpid()}~a", f"run~other~{ended.pid}~a", f"mine~{here}~{ended.pid}~a", f"run~{here}~mine"}
    for name in (dead, *kept):
        (tmp_path / name / "inside").mkdir(parents=True)
    with scratch_folder(tmp_path, "run"):
        assert not (tmp_path / dead).exists()
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_the_next_write_into_a_folder_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from levelfield.files.writing import write_whole
write_whole(Path({str(tmp_path)!r}) / "rows.npy", lambda file: os.kill(os.getpid(), signal.SIGKILL))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    kept = {temporary_path(tmp_path / "b").name, left.name.replace(socket.gethostname(), "other"), "a.txt"}
    for name in kept:
        (tmp_path / name).touch()
    write_text(tmp_path / "a.txt", "new")
    assert {path.name for path in tmp_path.iterdir()} == kept
