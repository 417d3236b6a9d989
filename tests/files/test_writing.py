"""Files are written completely or not at all, and only where a regular file may be; a lock has one holder."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import IO

import pytest

from levelfield.errors import BadInput
from levelfield.files.writing import locked, write_text


def test_a_device_is_written_to_and_stays_a_device() -> None:
    ours, theirs = os.openpty()
    device = Path(os.ttyname(theirs))
    write_text(device, "told")
    assert os.read(ours, 100) == b"told"
    assert stat.S_ISCHR(device.lstat().st_mode)
    os.close(ours)
    os.close(theirs)


def test_a_device_that_takes_nothing_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    device = Path(os.ttyname(theirs))
    monkeypatch.setattr(Path, "open", _full)
    with pytest.raises(BadInput, match=f"Cannot write {device}: No space left on device"):
        write_text(device, "told")
    os.close(ours)
    os.close(theirs)


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_pipe_and_a_link_to_one_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(BadInput, match=f"{name}: it is not a regular file"):
            write_text(tmp_path / name, "told")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_to_a_file_is_replaced_and_what_it_led_to_is_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "kept", "kept")
    (tmp_path / "link").symlink_to("kept")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "kept").read_text() == "kept"
    assert (tmp_path / "link").read_text() == "new"


def test_a_lock_whose_holder_removed_it_meanwhile_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
