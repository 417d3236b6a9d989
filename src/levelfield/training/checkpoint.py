"""The state of a run in one file that appears whole, and is read without running anything in it.

The first line says what it is, with a checksum of the rest: a run goes on from what was written, or from nothing.
"""

from __future__ import annotations

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

import torch

from levelfield.errors import Damaged
from levelfield.files import write_whole

_FORM = b"levelfield checkpoint 1 "
_EARLIER = b"PK"  # versions that wrote no checksum: a bare file of torch, which is a zip
_log = logging.getLogger(__name__)


def save(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()  # torch hides a full disk behind an error of its own
    torch.save(state, content)
    head = _FORM + _checksum(content.getbuffer()) + b"\n"
    write_whole(path, lambda file: file.writelines([head, content.getbuffer()]))


def load(path: Path) -> dict[str, Any] | None:
    """The saved state, or None if the run has not saved one yet. Damaged if it is not what was written."""
    if not path.exists():
        return None
    content = path.read_bytes()
    head, _, rest = content.partition(b"\n")
    if not content.startswith(_EARLIER):
        if not head.startswith(_FORM):
            raise Damaged(f"{path} is damaged: it is not a checkpoint.")
        if head != _FORM + _checksum(rest):
            raise Damaged(f"{path} is damaged: its checksum does not match.")
        content = rest
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file makes torch raise anything
        raise Damaged(f"{path} is damaged ({error}).") from error
    return state


def load_or_begin(path: Path) -> dict[str, Any] | None:
    """As `load`; a damaged checkpoint is removed, and the run begins again. That costs time and changes no bit."""
    try:
        return load(path)
    except Damaged as error:
        _log.warning("%s The run starts again from its first step.", error)
        path.unlink()
        return None


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
