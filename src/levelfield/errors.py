"""Exceptions: one root class; each subclass implies a remedy."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BadInput", "BadSpecification", "CommandEnded", "Damaged", "LevelfieldError", "LostProcess",
    "MissingData", "MissingExtra", "NotTrusted", "RunFailed", "Unfair", "UnknownName", "UnreadableImage",
    "nearest", "suggestion", "unknown",
]  # fmt: skip


class LevelfieldError(Exception):
    """Base class of all errors that levelfield raises deliberately."""


class CommandEnded(BaseException):
    """No further run can be done: ends the command with its message, where a LevelfieldError would end one run."""


class UnknownName(LevelfieldError):
    """An unknown name: correct the spelling."""


class BadInput(LevelfieldError):
    """Images, labels, arrays or files that cannot be used: correct the data."""


class UnreadableImage(BadInput):
    """An image that cannot be decoded: repair, remove or skip it."""


class Damaged(BadInput):
    """A damaged file: download or create it again."""


class MissingData(BadInput):
    """Data or weights that are not on this machine: download them from the official page, or set their location."""


class BadSpecification(LevelfieldError):
    """An invalid study, condition or hyperparameter: correct the study."""


class MissingExtra(LevelfieldError):
    """A missing optional dependency: install it."""


class Unfair(LevelfieldError):
    """An undeclared deviation from the conditions: declare it or remove it."""


class LostProcess(LevelfieldError):
    """Another process of a run ended: the first error is its own; run the command again to continue."""


class NotTrusted(LevelfieldError):
    """Code named by a folder without permission to run: read the file, then pass it to --trust."""


class RunFailed(LevelfieldError):
    """A failed run (non-finite loss, crash): see the run's folder."""


def import_extra(package: str, extra: str, problem: str) -> Any:
    """A package that comes with an extra of levelfield. problem: what to say if it is not installed.

    >>> import_extra("no_such_package", "notebook", "to_pandas() needs pandas")
    Traceback (most recent call last):
    ...
    levelfield.errors.MissingExtra: to_pandas() needs pandas: pip install "levelfield[notebook]"
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(f'{problem}: pip install "levelfield[{extra}]"') from error


def nearest(name: object, names: Iterable[str]) -> str | None:
    """The most similar of `names`, or None if nothing is similar.

    >>> nearest("proxy_anchr", ["margin", "proxy_anchor"])
    'proxy_anchor'
    """
    by_folded = {candidate.lower().replace("-", "_"): candidate for candidate in names}
    close = difflib.get_close_matches(str(name).lower().replace("-", "_"), list(by_folded), n=1, cutoff=0.5)
    return by_folded[close[0]] if close else None


def unknown(kind: str, name: object, names: Iterable[str], *, see: str | None = None) -> UnknownName:
    """Create the error for an unknown name; it suggests the nearest name and where to see all names.

    >>> print(unknown("objective", "margn", ["margin", "triplet"], see="levelfield list objectives"))
    Unknown objective 'margn'. Did you mean 'margin'? See `levelfield list objectives`.
    """
    return UnknownName(f"Unknown {kind} '{name}'.{suggestion(name, sorted(names))}" + (f" See `{see}`." if see else ""))


def suggestion(name: object, names: Iterable[str], *, otherwise: str = "There are") -> str:
    """The end of a message about an unknown name: the most similar of `names`, or all of them.

    >>> suggestion("margn", ["margin", "triplet"]), suggestion("x", ["margin"], otherwise="Valid keys")
    (" Did you mean 'margin'?", ' Valid keys: margin.')
    """
    names = list(names)
    close = nearest(name, names)
    return f" Did you mean '{close}'?" if close else f" {otherwise}: {', '.join(names)}."
