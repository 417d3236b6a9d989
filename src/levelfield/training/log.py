"""The log of a run: one JSON object per line, readable while it grows, truncated to the checkpoint on resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from levelfield.files.reading import MEGABYTE, read_bytes
from levelfield.files.writing import write_text

LOG = "log.jsonl"
MAX_LOG_BYTES = 1_000 * MEGABYTE  # a million steps need a tenth of that


def resume(path: Path, step: int) -> TextIO:
    """The log for appending whole lines, without those after the step from which a run continues."""
    if path.exists():
        text = read_bytes(path, most=MAX_LOG_BYTES).decode("utf-8", "replace")
        kept = [line for line in text.splitlines() if _step_of(line) < step]
        write_text(path, "".join(line + "\n" for line in kept))
    return path.open("a", encoding="utf-8", buffering=1)


def _step_of(line: str) -> float:
    """The step of a line; a line truncated by a crash counts as a later step."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # not one of our lines
        return float("inf")
