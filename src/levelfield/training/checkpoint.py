"""Checkpoints: the state of a run in one file, written atomically and read without running code.

The first line has the format and a checksum of the rest, so that a run never resumes from a damaged state.
"""

from __future__ import annotations

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

import torch

from levelfield.errors import Damaged
from levelfield.files.writing import write_whole

CHECKPOINT = "checkpoint"  # the file in a run's folder, while it trains
_FORM = b"levelfield checkpoint 1 "
_log = logging.getLogger(__name__)


def save(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()  # torch reports a full disk as an unrelated error
    torch.save(state, content)
    head = _FORM + _checksum(content.getbuffer()) + b"\n"
    write_whole(path, lambda file: file.writelines([head, content.getbuffer()]))


def load(path: Path) -> dict[str, Any] | None:
    """Load the saved state, or None if there is none yet. Raises Damaged if the checksum does not match."""
    if not path.exists():
        return None
    head, _, rest = path.read_bytes().partition(b"\n")
    if not head.startswith(_FORM):
        raise Damaged(f"{path} is damaged: it is not a checkpoint.")
    if head != _FORM + _checksum(rest):
        raise Damaged(f"{path} is damaged: its checksum does not match.")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(rest), weights_only=True, map_location="cpu")
    except Exception as error:  # torch can raise anything for a damaged file
        raise Damaged(f"{path} is damaged ({error}).") from error
    return state


def load_or_begin(path: Path) -> dict[str, Any] | None:
    """Like `load`, but remove a damaged checkpoint, so that the run starts again with the same result."""
    try:
        return load(path)
    except Damaged as error:
        _log.warning("%s The run starts again from its first step.", error)
        path.unlink()
        return None


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
