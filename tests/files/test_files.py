"""Files are written whole or not at all, and only where a regular file may be; locks; what is left is removed."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from levelfield.errors import BadInput, Damaged
from levelfield.files.arrays import read_array, read_arrays
from levelfield.files.reading import read_json
from levelfield.files.writing import locked, scratch_folder, temporary_path, write_text


def test_a_device_a_pipe_and_a_link_to_one_are_refused_at_once_and_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (Path("/dev/null"), tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(BadInput, match=f"Cannot write {path}: it is not a regular file"):
            write_text(path, "text")
    assert stat.S_ISCHR(Path("/dev/null").lstat().st_mode)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_to_a_file_is_replaced_and_what_it_led_to_is_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "kept", "kept")
    (tmp_path / "link").symlink_to("kept")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "kept").read_text() == "kept"
    assert (tmp_path / "link").read_text() == "new"


def test_a_lock_that_its_holder_removed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flock, waited = tmp_path / "new" / ".lock", fcntl.flock, []

    def waiting(handle: IO[bytes], how: int) -> None:
        if not waited:
            waited.append(handle)
            path.unlink()
            path.parent.rmdir()
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", waiting)
    with locked(path) as ours, locked(path, wait=False) as others:
        assert (ours, others, path.exists()) == (True, False, True)


def test_a_scratch_folder_is_removed_also_after_an_error(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "inside").mkdir()
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"), scratch_folder(tmp_path / "new", "run") as folder:
        fail(folder)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_scratch_folder_is_beside_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()  # perhaps of another user
    with scratch_folder(tmp_path, "run") as folder:
        assert folder.parent == tmp_path


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from levelfield.files.writing import write_whole
write_whole(Path({str(tmp_path)!r}) / "rows.npy", lambda file: os.kill(os.getpid(), signal.SIGKILL))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    dead_folder = tmp_path / left.name.replace("rows.npy", "run")
    kept = {temporary_path(tmp_path / "b").name, left.name.replace(socket.gethostname(), "other"), "a.txt"}
    for name in (dead_folder.name, *kept):
        (tmp_path / name).mkdir()
    with scratch_folder(tmp_path, "run"):
        assert not dead_folder.exists()
        assert not left.exists()
    left.touch()
    write_text(tmp_path / "b.txt", "new")  # the first write of this process into the folder
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "b.txt"}


def test_a_damaged_array_is_not_taken_for_one_of_objects(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"False", b"Folse"))
    with pytest.raises(Damaged, match=r"is not a valid \.npy file, or it is truncated: "):
        read_array(tmp_path / "a.npy")


def test_an_archive_that_unpacks_to_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(100_000))
    assert read_arrays(tmp_path / "a.npz")["a"].size == 100_000
    monkeypatch.setattr("levelfield.files.arrays._MOST_UNPACKED", 100_000)
    with pytest.raises(Damaged, match=r"it unpacks to 800,\d\d\d bytes; the limit is 100,000"):
        read_arrays(tmp_path / "a.npz")


def test_whole_characters_are_read_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('["\\ud83d\\ude00 \\u00e9 \\\\ \\n"]')
    assert read_json(tmp_path / "a.json") == ["\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE} \\ \n"]
