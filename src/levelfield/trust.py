"""Permission to run code: only files named by the user are run, never files named only by a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

from levelfield.contexts import holding
from levelfield.errors import NotTrusted
from levelfield.files.writing import expanded

_allowed: ContextVar[frozenset[str] | None] = ContextVar("levelfield_code_that_may_run", default=None)


@contextmanager
def trusting(*named: str | Path) -> Iterator[None]:
    """Context in which only the named files, and those trusted by an outer context, are run.

    named: files, or single classes and functions such as `my_losses.py:MyLoss`.

    All commands and all functions that read a folder use this context. Without it, a call of
    `objectives.create("my_losses.py:MyLoss")` runs the file, because the caller is the user who names it.

    >>> with trusting("my_losses.py:MyLoss"):
    ...     [reference.rpartition("/")[2] for reference in trusted()]
    ['my_losses.py:MyLoss']
    """
    with holding(_allowed, (_allowed.get() or frozenset()) | {_absolute(name) for name in named}):
        yield


def trust(*named: str | Path) -> None:
    """Trust more files until the enclosing `trusting` ends; without one, nothing is restricted."""
    if (already := _allowed.get()) is not None:
        _allowed.set(already | {_absolute(name) for name in named})


def trusted() -> tuple[str, ...] | None:
    """The trusted files, to pass to another process; None if nothing is restricted."""
    allowed = _allowed.get()
    return None if allowed is None else tuple(sorted(allowed))


def as_trusted(allowed: tuple[str, ...] | None) -> AbstractContextManager[None]:
    """Apply the result of `trusted()` from another process."""
    return nullcontext() if allowed is None else trusting(*allowed)


def permitted(reference: str) -> tuple[Path, bool]:
    """The file that `path/to/file.py:Name` may run, and whether only objects defined in that file may be used.

    A trusted file replaces a file of the same name that was elsewhere when a folder was written. Raises NotTrusted
    otherwise.
    """
    path_text, _, name = reference.rpartition(":")
    path = Path(os.path.realpath(expanded(path_text)))
    allowed = _allowed.get()
    if allowed is None or f"{path}:{name}" in allowed:
        return path, False
    if str(path) in allowed:
        return path, True
    moved = [Path(file) for file in allowed if Path(file).name == path.name]
    if len(moved) == 1:
        return moved[0], True
    where = "Read the file" if path.is_file() else f"The file {path} does not exist: find it, read it"
    raise NotTrusted(
        f"'{reference}' is code named by a folder; levelfield does not run it without permission. {where} and, if "
        f"you trust it, add --trust {path_text} (in Python: `with levelfield.trusting(FILE):`)."
    )


def _absolute(named: str | Path) -> str:
    path, colon, name = str(named).rpartition(":") if ".py:" in str(named) else (str(named), "", "")
    return f"{os.path.realpath(expanded(path))}{colon}{name}"
