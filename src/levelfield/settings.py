"""Checks of settings, made when a part is created; the error messages state the valid values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from levelfield.errors import BadSpecification, nearest

T = TypeVar("T")


def accepted(entry: Callable[..., Any]) -> dict[str, Any] | None:
    """Keyword arguments of `entry` with their defaults (`inspect.Parameter.empty`: required); None if it takes any.

    >>> def loss(embeddings, *, margin=0.2): ...
    >>> accepted(loss)["margin"]
    0.2
    """
    parameters = inspect.signature(entry).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def check_keywords(what: str, given: Iterable[str], entry: Callable[..., Any], *, also: Iterable[str] = ()) -> None:
    """Refuse a keyword that `entry` does not take.

    >>> def triplet(*, margin=0.2): ...
    >>> check_keywords("objective 'triplet'", ["margn"], triplet)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: The objective 'triplet' has no setting 'margn'. Did you mean 'margin'? ...
    """
    takes = accepted(entry)
    if takes is None:
        return
    names = sorted({*takes, *also})
    for name in given:
        if name not in names:
            close = nearest(name, names)
            hint = f" Did you mean '{close}'?" if close else ""
            has = f"It takes: {', '.join(names)}." if names else "It takes none."
            raise BadSpecification(f"The {what} has no setting '{name}'.{hint} {has}")


def number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return `value` if it is a finite number within the bounds.

    >>> number("temperature", 0.05, above=0)
    0.05
    >>> number("temperature", 0, above=0)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'temperature' is 0; it must be above 0.
    >>> number("area", 2, above=0, most=1)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'area' is 2; it must be at most 1.
    """
    import numpy as np

    kinds = int | float | np.integer | np.floating
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        raise BadSpecification(f"'{name}' is {value!r}; expected a finite number.")
    if value <= above:
        raise BadSpecification(f"'{name}' is {value}; it must be above {above:g}.")
    if not least <= value <= most:
        bounds = f"between {least:g} and {most:g}"
        if math.inf in (most, -least):
            bounds = f"at least {least:g}" if most == math.inf else f"at most {most:g}"
        raise BadSpecification(f"'{name}' is {value}; it must be {bounds}.")
    return float(value)


def whole(name: str, value: Any, *, least: int = 0, most: float = math.inf) -> int:
    """Return `value` if it is an integer from `least` to `most`.

    >>> whole("iterations", 1.5)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'iterations' is 1.5; expected an integer.
    """
    if number(name, value, least=least, most=most) != int(value):
        raise BadSpecification(f"'{name}' is {value}; expected an integer.")
    return int(value)


def one_of(name: str, value: T, choices: Iterable[object]) -> T:
    """Return `value` if it is one of `choices`.

    >>> one_of("mode", "nearest", ["random", "closest"])
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'mode' is 'nearest'. Choose one of: 'random', 'closest'.
    """
    choices = list(choices)
    # `in` alone would accept 1 as True
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        raise BadSpecification(f"'{name}' is {value!r}. Choose one of: {', '.join(map(repr, choices))}.")
    return value
