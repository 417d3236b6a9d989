"""The log of a run: one JSON object per line, readable while it grows, truncated to the checkpoint on resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from levelfield.files.reading import MEGABYTE, read_bytes
from levelfield.files.writing import write_text

MOST = 1_000 * MEGABYTE  # bytes; a million steps need a tenth of that


def resume(path: Path, step: int) -> TextIO:
    """The log for appending whole lines, without those after the step from which a run continues."""
    if path.exists():
        text = read_bytes(path, most=MOST).decode("utf-8", "replace")
        kept = [line for line in text.splitlines() if _step_of(line) < step]
        write_text(path, "".join(line + "\n" for line in kept))
    return path.open("a", encoding="utf-8", buffering=1)


def numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """Flatten the numbers of an entry to names with slashes, for TensorBoard.

    >>> numbers({"loss": 3, "terms": {"pull": 1.0, "push": 2.0}})
    {'loss': 3.0, 'terms/pull': 1.0, 'terms/push': 2.0}
    """
    flat: dict[str, float] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}/{inner}": number for inner, number in numbers(value).items()}
        else:
            flat[name] = float(value)
    return flat


def _step_of(line: str) -> float:
    """The step of a line; a line truncated by a crash counts as a later step."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # not one of our lines
        return float("inf")
