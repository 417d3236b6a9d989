"""The state of a run in one file that appears whole, and is read without running anything in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from levelfield.errors import BadInput
from levelfield.files import write_whole


def save(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()  # torch hides a full disk behind an error of its own
    torch.save(state, content)
    write_whole(path, lambda file: file.write(content.getbuffer()))


def load(path: Path) -> dict[str, Any] | None:
    """The saved state, or None if the run has not saved one yet."""
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file makes torch raise anything
        raise BadInput(f"{path} is damaged ({error}). Remove it, and the run starts anew.") from error
    return state
