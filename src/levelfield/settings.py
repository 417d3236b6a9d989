"""Settings of parts: which ones a part takes, and checks of their values by the annotations.

`margin: float`, `scale: Annotated[float, Gt(0)]`, `mode: Literal["draw", "cover"]` and `normalize: bool` state the
valid values, and the error messages repeat them, also for a user's own part.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le

from levelfield.errors import BadSpecification, suggestion

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]
Natural = Annotated[int, Ge(0)]


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


def check_settings(
    what: str, settings: Mapping[str, Any], entry: Callable[..., Any], *, also: Iterable[str] = ()
) -> None:
    """Refuse a setting that `entry` does not take, or whose value its annotation does not allow.

    >>> def triplet(*, margin: float = 0.2): ...
    >>> check_settings("objective 'triplet'", {"margn": 0.1}, triplet)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: The objective 'triplet' has no setting 'margn'. Did you mean 'margin'?
    >>> check_settings("objective 'triplet'", {"margin": "wide"}, triplet)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'margin' is 'wide'; expected a finite number.
    """
    if (takes := accepted(entry)) is not None:
        check_names(f"The {what}", settings, {*takes, *also})
    check_values(settings, entry)


def check_names(what: str, settings: Iterable[str], takes: Iterable[str]) -> None:
    """Refuse names of settings that are not among those that a part takes."""
    names = sorted(takes)
    for name in settings:
        if name not in names:
            hint = suggestion(name, names, otherwise="It takes") if names else " It takes none."
            raise BadSpecification(f"{what} has no setting '{name}'.{hint}")


def check_values(settings: Mapping[str, Any], entry: Callable[..., Any]) -> None:
    """Refuse values that the annotations of `entry` do not allow."""
    known = _annotations(entry)
    for name, value in settings.items():
        if name in known:
            converted(name, value, known[name])


def takes_integers(entry: Callable[..., Any], name: str) -> bool:
    """Whether a setting of `entry` is an integer by its annotation.

    >>> def histogram(*, bins: Count = 65, width: float = 2.0): ...
    >>> takes_integers(histogram, "bins"), takes_integers(histogram, "width")
    (True, False)
    """
    annotation = _annotations(entry).get(name)
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return any(int in (member, *get_args(member)[:1]) and get_origin(member) in (None, Annotated) for member in members)


def checked(function: F) -> F:
    """Decorator: check the arguments by their annotations, and convert integers to `float` and vice versa.

    >>> @checked
    ... def softmax(logits, *, temperature: Positive = 1.0): return temperature
    >>> softmax(None, temperature=2)
    2.0
    >>> softmax(None, temperature=0)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'temperature' is 0; it must be above 0.
    """
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        known = _annotations(function)
        first = [converted(name, value, known.get(name)) for name, value in zip(names, positional, strict=False)]
        named = {name: converted(name, value, known.get(name)) for name, value in named.items()}
        return function(*first, *positional[len(names) :], **named)

    return call  # type: ignore[return-value]


def check_calls(kind: type) -> None:
    """Let the constructor of a class check its arguments, see `checked`. For `__init_subclass__`."""
    if "__init__" in vars(kind):
        kind.__init__ = checked(vars(kind)["__init__"])  # type: ignore[misc]


def converted(name: str, value: Any, annotation: Any) -> Any:
    """The value in the type of its annotation; an annotation other than numbers, choices and their unions allows all.

    >>> converted("size", 3.0, int), converted("size", "auto", int | str), converted("size", None, int | None)
    (3, 'auto', None)
    """
    kind, *bounds = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    limits = {key: getattr(bound, sign) for bound in bounds for sign, key in _LIMITS.items() if hasattr(bound, sign)}
    if kind is float:
        return number(name, value, **limits)
    if kind is int:
        return whole(name, value, **{"least": -math.inf, **limits})
    if kind is bool:
        return one_of(name, value, (True, False))
    if get_origin(kind) is Literal:
        return one_of(name, value, get_args(kind))
    return _of_union(name, value, get_args(kind)) if get_origin(kind) in (Union, UnionType) else value


_LIMITS = {"gt": "above", "ge": "least", "le": "most"}


def _of_union(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    """The value in the type of the member of the union that fits it."""
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    numbers = [kind for kind in kinds if (get_args(kind)[0] if get_origin(kind) is Annotated else kind) in (int, float)]
    judged = bool(choices) + len(numbers) + (NoneType in kinds)
    if value is None and NoneType in kinds:
        return None
    if choices and (isinstance(value, str) or (judged == len(kinds) and not numbers)):
        return one_of(name, value, [*choices, *([None] if NoneType in kinds else [])])
    if numbers and (isinstance(value, int | float) or judged == len(kinds)):
        return converted(name, value, numbers[0])
    return value


@cache
def _annotations(entry: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of the arguments of a function, or of a class and its parents; without names unknown at run time."""
    kinds = reversed(entry.__mro__) if isinstance(entry, type) else ()
    constructors = [vars(kind)["__init__"] for kind in kinds if "__init__" in vars(kind)]
    known: dict[str, Any] = {}
    for function in map(inspect.unwrap, constructors or [entry]):
        space = getattr(function, "__globals__", {})
        for name, annotation in getattr(function, "__annotations__", {}).items():
            try:
                only = SimpleNamespace(__annotations__={name: annotation})
                known[name] = typing.get_type_hints(only, globalns=space, include_extras=True)[name]
            except NameError:  # imported for type checkers only, or local to a function
                known.pop(name, None)
    return known


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
    if not is_finite(value):
        raise BadSpecification(f"'{name}' is {value!r}; expected a finite number.")
    if value <= above:
        raise BadSpecification(f"'{name}' is {value}; it must be above {above:g}.")
    if not least <= value <= most:
        bounds = f"between {least:g} and {most:g}"
        if math.inf in (most, -least):
            bounds = f"at least {least:g}" if most == math.inf else f"at most {most:g}"
        raise BadSpecification(f"'{name}' is {value}; it must be {bounds}.")
    return float(value)


def span(name: str, value: Any, **bounds: float) -> tuple[float, float]:
    """Return two numbers within the bounds of `number`, the lower first.

    >>> span("log_var_clamp", [0, 6])
    (0.0, 6.0)
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise BadSpecification(f"'{name}' is {value!r}; it must be two numbers, lowest and highest, e.g. [0.16, 1].")
    low, high = (number(name, end, **bounds) for end in value)
    if low > high:
        raise BadSpecification(f"'{name}' is {value!r}; the lower number must come first.")
    return low, high


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number, of Python or numpy, that a float can hold.

    >>> is_finite(3), is_finite(True), is_finite(10**400)
    (True, False, False)
    """
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def whole(name: str, value: Any, *, least: float = 0, most: float = math.inf) -> int:
    """Return `value` if it is an integer from `least` to `most`.

    >>> whole("iterations", 1.5)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'iterations' is 1.5; expected an integer.
    >>> whole("bins", 99999999999999999999)
    Traceback (most recent call last):
    ...
    levelfield.errors.BadSpecification: 'bins' is 99999999999999999999; it is too large.
    """
    if number(name, value, least=least, most=most) != int(value):
        problem = "it is too large" if isinstance(value, Integral) else "expected an integer"
        raise BadSpecification(f"'{name}' is {value}; {problem}.")
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
