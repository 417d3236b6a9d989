"""Location in user code where an error was raised."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import levelfield

_OTHERS = tuple(
    str(Path(place).resolve())
    for place in (*levelfield.__path__, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
)


def raised_at(error: BaseException) -> str:
    """File, line and function of the deepest frame outside levelfield, installed packages and Python itself.

    Searches the error and its causes; "" if no frame qualifies.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith("<") and not _is_others(frame.filename):
            return f"{_shortest(frame.filename)}, line {frame.lineno}, in {frame.name}"
    return "" if error.__cause__ is None else raised_at(error.__cause__)


def _is_others(file: str) -> bool:
    return Path(file).resolve().as_posix().startswith(_OTHERS)


def _shortest(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
