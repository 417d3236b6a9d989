"""Samplers: which settings to try next. `halton`, `random` and `grid` are built in, the others are Optuna's."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from levelfield.errors import MissingExtra, unknown
from levelfield.randomness import numpy_stream
from levelfield.ranges import Range
from levelfield.tuning.space import Space


class Sampler:
    """Proposes settings of one method: the next of these points; subclasses learn from the scores.

    The same seed and the same reported values give the same proposals.

    >>> from levelfield.ranges import Range
    >>> create("halton", {"margin": Range(0.1, 0.4)}, seed=0, trials=2).ask(2)
    [{'margin': 0.312}, {'margin': 0.162}]
    >>> sorted(point["a"] for point in create("grid", {"a": Range(0, 1)}, seed=0, trials=3).ask(3))
    [0.0, 0.5, 1.0]
    """

    def __init__(self, points: Iterator[dict[str, Any]]) -> None:
        self._points = points

    def ask(self, count: int) -> list[dict[str, Any]]:
        """The next `count` settings. Asking for 2 and then 3 gives the same as asking for 5."""
        return list(itertools.islice(self._points, count))

    def tell(self, values: Sequence[float]) -> None:
        """Report the validation scores of all settings asked for since the last call, in their order."""

    def start_from(self, settings: Mapping[str, Any], value: float) -> None:
        """Report the validation score of the study's own settings, which were not asked for."""


def _halton(space: Space, seed: int, trials: int) -> Iterator[dict[str, Any]]:
    """Points that fill the ranges evenly: a scrambled Halton sequence."""
    from scipy.stats import qmc

    points = qmc.Halton(d=len(space), scramble=True, rng=seed)
    while True:
        yield _at(space, points.random(1)[0])


def _random(space: Space, seed: int, trials: int) -> Iterator[dict[str, Any]]:
    """Independent draws (seidenschwarz2021)."""
    for number in itertools.count():
        yield _at(space, numpy_stream(seed, "trial", number).random(len(space)))


def _grid(space: Space, seed: int, trials: int) -> Iterator[dict[str, Any]]:
    """All combinations of evenly spaced levels (fehervari2019), as many levels as the trials allow, in a random order.

    When the grid is used up, it is refined: further points come from the grid with one more level.
    """
    first = 2
    while math.prod(len(span.levels(first + 1)) for span in space.values()) <= trials and first < trials:
        first += 1
    known: list[tuple[Any, ...]] = []
    for levels in itertools.count(first):
        grid = [p for p in itertools.product(*(span.levels(levels) for span in space.values())) if p not in known]
        if not grid:  # all choices, all integers, or all values of three digits
            yield from itertools.cycle(dict(zip(space, point, strict=True)) for point in known)
        known += grid
        for index in numpy_stream(seed, "grid", levels).permutation(len(grid)):
            yield dict(zip(space, grid[index], strict=True))


def _at(space: Space, point: np.ndarray) -> dict[str, Any]:
    return {key: span.at(float(share)) for (key, span), share in zip(space.items(), point, strict=True)}


class FromOptuna(Sampler):
    """A sampler of Optuna, which learns from the reported values."""

    def __init__(self, space: Space, sampler: Any) -> None:
        self._space, self._distributions = space, distributions(space)
        self._optuna = import_optuna()
        self._study = self._optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: list[Any] = []

    def ask(self, count: int) -> list[dict[str, Any]]:
        trials = [self._study.ask(self._distributions) for _ in range(count)]
        self._asked += trials
        # three digits are enough to train with; the sampler knows its own value, which hardly differs
        return [{key: from_optuna(span, trial.params[key]) for key, span in self._space.items()} for trial in trials]

    def tell(self, values: Sequence[float]) -> None:
        for trial, value in zip(self._asked, values, strict=True):
            self._study.tell(trial, value)
        self._asked = []

    def start_from(self, settings: Mapping[str, Any], value: float) -> None:
        if all(key in settings and settings[key] in span for key, span in self._space.items()):
            params = {key: for_optuna(settings[key]) for key in self._space}
            kinds = dict(self._distributions)
            self._study.add_trial(self._optuna.create_trial(params=params, distributions=kinds, value=value))


def import_optuna() -> Any:
    """The module `optuna`, without its messages; None if it is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def distributions(space: Space) -> dict[str, Any]:
    """The space in Optuna's terms."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    by_key: dict[str, Any] = {}
    for key, span in space.items():
        if span.choices:
            by_key[key] = CategoricalDistribution([for_optuna(choice) for choice in span.choices])
        elif span.whole:
            by_key[key] = IntDistribution(math.ceil(span.low), math.floor(span.high), log=span.log)
        else:
            by_key[key] = FloatDistribution(span.low, span.high, log=span.log)
    return by_key


def for_optuna(value: Any) -> Any:
    """A choice as Optuna can store it: lists and mappings as text.

    >>> for_optuna(0.5), for_optuna({"semihard": {"mode": "all"}})
    (0.5, '{"semihard": {"mode": "all"}}')
    """
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value, default=str)


def from_optuna(span: Range, value: Any) -> Any:
    if span.choices:
        return next(choice for choice in span.choices if for_optuna(choice) == value)
    return span.rounded(value)


_BUILT_IN: dict[str, Callable[[Space, int, int], Iterator[dict[str, Any]]]]
_BUILT_IN = {"halton": _halton, "random": _random, "grid": _grid}
_OPTUNA = ("tpe", "gp", "cma")
NAMES = (*_BUILT_IN, *_OPTUNA)


def create(name: str, space: Space, *, seed: int, trials: int) -> Sampler:
    """The sampler `name` over `space`. trials: how many settings will be asked for, as far as that is known."""
    if name in _BUILT_IN:
        return Sampler(_BUILT_IN[name](space, seed, trials))
    optuna = import_optuna()
    # two start-up trials for each setting, at most Optuna's ten: with 20 trials ten random ones would be half of them
    start = {"seed": seed, "n_startup_trials": min(10, 2 + 2 * len(space))}
    if name == "tpe":
        return FromOptuna(space, optuna.samplers.TPESampler(**start, multivariate=True, constant_liar=True))
    if name == "gp":
        return FromOptuna(space, optuna.samplers.GPSampler(**start))
    return FromOptuna(space, optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False))


def default() -> str:
    """tpe if Optuna is installed, otherwise halton."""
    return "halton" if import_optuna() is None else "tpe"


def check_name(name: str) -> None:
    """Refuse an unknown sampler, and one whose package is not installed."""
    if name not in NAMES:
        raise unknown("sampler", name, NAMES)
    try:
        for package in {"cma": ("optuna", "cmaes")}.get(name, ("optuna",) if name in _OPTUNA else ()):
            importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"The sampler '{name}' needs Optuna: pip install \"levelfield[tune]\". Without it there are "
            f"{', '.join(_BUILT_IN)}."
        ) from error
