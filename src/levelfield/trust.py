"""Whose code may run: files that the user named. A file that only a folder names is data and stays unread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from levelfield.errors import NotTrusted
from levelfield.files import expanded

_allowed: ContextVar[frozenset[str] | None] = ContextVar("levelfield_code_that_may_run", default=None)


@contextmanager
def trusting(*named: str | Path) -> Iterator[None]:
    """Inside, only the named files are run, and those that are trusted around it.

    named: a file, all of whose own classes and functions may be used, or one of them, `my_losses.py:MyLoss`.

    Every command works inside, and so does every function that reads a folder. Elsewhere the caller of
    `objectives.create("my_losses.py:MyLoss")` is the user who names the file, and it is run.

    >>> with trusting("my_losses.py:MyLoss"):
    ...     [reference.rpartition("/")[2] for reference in trusted()]
    ['my_losses.py:MyLoss']
    """
    token = _allowed.set((_allowed.get() or frozenset()) | {_absolute(one) for one in named})
    try:
        yield
    finally:
        _allowed.reset(token)


def trust(*named: str | Path) -> None:
    """Trust more files until the surrounding `trusting` ends; without one nothing is restricted."""
    if (already := _allowed.get()) is not None:
        _allowed.set(already | {_absolute(one) for one in named})


def trusted() -> tuple[str, ...] | None:
    """What may run here, to be handed to another process; None if nothing is restricted."""
    allowed = _allowed.get()
    return None if allowed is None else tuple(sorted(allowed))


def as_trusted(allowed: tuple[str, ...] | None) -> AbstractContextManager[None]:
    """What another process said with `trusted()`, here."""
    return nullcontext() if allowed is None else trusting(*allowed)


def permitted(reference: str) -> tuple[Path, bool]:
    """The file that `path/to/file.py:Name` may run, and whether just what is written in that file may be used.

    A trusted file stands for one of the same name that lay elsewhere when a folder was made. NotTrusted otherwise.
    """
    path_text, _, name = reference.rpartition(":")
    path = Path(os.path.realpath(expanded(path_text)))
    allowed = _allowed.get()
    if allowed is None or f"{path}:{name}" in allowed:
        return path, False
    if str(path) in allowed:
        return path, True
    moved = [Path(one) for one in allowed if Path(one).name == path.name]
    if len(moved) == 1:
        return moved[0], True
    where = "Read the file" if path.is_file() else f"The file {path} does not exist: find it, read it"
    raise NotTrusted(
        f"'{reference}' is code named by a folder; levelfield does not run it without permission. {where} and, if "
        "you trust it, "
        f"add --trust {path_text} (in Python: `with levelfield.trusting(FILE):`)."
    )


def _absolute(named: str | Path) -> str:
    path, colon, name = str(named).rpartition(":") if ".py:" in str(named) else (str(named), "", "")
    return f"{os.path.realpath(expanded(path))}{colon}{name}"
