"""Samplers: which settings to try next. `halton`, `random` and `grid` are built in, the others are Optuna's."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from levelfield.errors import MissingExtra, unknown
from levelfield.randomness import numpy_stream
from levelfield.ranges import Range
from levelfield.tuning.space import Space

if TYPE_CHECKING:
    import optuna


class Sampler(ABC):
    """Proposes settings of one method. The same seed and the same reported values give the same proposals."""

    @abstractmethod
    def ask(self, count: int) -> list[dict[str, Any]]:
        """The next `count` settings. Asking for 2 and then 3 gives the same as asking for 5."""

    def tell(self, values: Sequence[float], *, pruned: Sequence[bool]) -> None:  # noqa: B027  (most do not learn)
        """The validation figures of all settings asked for since the last call, in their order.

        pruned: which of them were stopped early, so that their figure is of a shorter training.
        """

    def start_from(self, settings: Mapping[str, Any], value: float) -> None:  # noqa: B027
        """The validation figure of the study's own settings, which were not asked for."""


class Halton(Sampler):
    """Points that fill the ranges evenly: a scrambled Halton sequence.

    >>> from levelfield.ranges import Range
    >>> Halton({"margin": Range(0.1, 0.4)}, seed=0).ask(2)
    [{'margin': 0.312}, {'margin': 0.162}]
    """

    def __init__(self, space: Space, *, seed: int, trials: int = 0) -> None:
        from scipy.stats import qmc

        self._space = space
        self._points = qmc.Halton(d=len(space), scramble=True, rng=seed)

    def ask(self, count: int) -> list[dict[str, Any]]:
        return [_at(self._space, point) for point in self._points.random(count)] if count else []


class Random(Sampler):
    """Independent draws (seidenschwarz2021)."""

    def __init__(self, space: Space, *, seed: int, trials: int = 0) -> None:
        self._space, self._seed, self._asked = space, seed, 0

    def ask(self, count: int) -> list[dict[str, Any]]:
        numbers = range(self._asked, self._asked + count)
        self._asked += count
        return [_at(self._space, numpy_stream(self._seed, "trial", k).random(len(self._space))) for k in numbers]


class Grid(Sampler):
    """All combinations of evenly spaced levels (fehervari2019), as many levels as the trials allow, in a random order.

    When the grid is used up, it is refined: the remaining trials come from the grid with one more level.

    >>> from levelfield.ranges import Range
    >>> sorted(point["a"] for point in Grid({"a": Range(0, 1)}, seed=0, trials=3).ask(3))
    [0.0, 0.5, 1.0]
    """

    def __init__(self, space: Space, *, seed: int, trials: int) -> None:
        self._waiting = self._points(space, seed, max(2, _levels(space, trials)))

    @staticmethod
    def _points(space: Space, seed: int, levels: int) -> Any:
        known: list[tuple[Any, ...]] = []
        for count in itertools.count(levels):
            grid = [p for p in itertools.product(*(span.levels(count) for span in space.values())) if p not in known]
            if not grid:  # all choices, all integers, or all values of three digits
                yield from itertools.cycle(dict(zip(space, point, strict=True)) for point in known)
            known += grid
            for index in numpy_stream(seed, "grid", count).permutation(len(grid)):
                yield dict(zip(space, grid[index], strict=True))

    def ask(self, count: int) -> list[dict[str, Any]]:
        return list(itertools.islice(self._waiting, count))


def _levels(space: Space, trials: int) -> int:
    """The most levels of each range with which the grid still has at most `trials` points."""
    levels = 2
    while math.prod(len(span.levels(levels + 1)) for span in space.values()) <= trials and levels < trials:
        levels += 1
    return levels


class FromOptuna(Sampler):
    """A sampler of Optuna, which learns from the reported values."""

    def __init__(self, space: Space, sampler: optuna.samplers.BaseSampler) -> None:
        import optuna

        self._space = space
        self._distributions = distributions(space)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: list[optuna.trial.Trial] = []

    def ask(self, count: int) -> list[dict[str, Any]]:
        trials = [self._study.ask(self._distributions) for _ in range(count)]
        self._asked += trials
        # three digits are enough to train with; the sampler knows its own value, which hardly differs
        return [{key: _from_optuna(span, t.params[key]) for key, span in self._space.items()} for t in trials]

    def tell(self, values: Sequence[float], *, pruned: Sequence[bool]) -> None:
        import optuna

        for trial, value, early in zip(self._asked, values, pruned, strict=True):
            if early:
                trial.report(value, step=0)
                self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                self._study.tell(trial, value)
        self._asked = []

    def start_from(self, settings: Mapping[str, Any], value: float) -> None:
        import optuna

        if all(key in settings and settings[key] in span for key, span in self._space.items()):
            params = {key: for_optuna(settings[key]) for key in self._space}
            self._study.add_trial(
                optuna.create_trial(params=params, distributions=dict(self._distributions), value=value)
            )


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


def _from_optuna(span: Range, value: Any) -> Any:
    if span.choices:
        return next(choice for choice in span.choices if for_optuna(choice) == value)
    return span.rounded(value)


def _tpe(space: Space, seed: int) -> Any:
    from optuna.samplers import TPESampler

    # two start-up trials for each setting, at most Optuna's ten: with 20 trials ten random ones would be half of them
    return TPESampler(seed=seed, multivariate=True, n_startup_trials=min(10, 2 + 2 * len(space)), constant_liar=True)


def _gp(space: Space, seed: int) -> Any:
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed, n_startup_trials=min(10, 2 + 2 * len(space)))


def _cma(space: Space, seed: int) -> Any:
    from optuna.samplers import CmaEsSampler

    return CmaEsSampler(seed=seed, warn_independent_sampling=False)


_BUILT_IN: dict[str, Callable[..., Sampler]] = {"halton": Halton, "random": Random, "grid": Grid}
_OPTUNA: dict[str, Callable[[Space, int], Any]] = {"tpe": _tpe, "gp": _gp, "cma": _cma}
NAMES = (*_BUILT_IN, *_OPTUNA)


def create(name: str, space: Space, *, seed: int, trials: int) -> Sampler:
    """The sampler `name` over `space`. trials: how many settings will be asked for, as far as that is known."""
    if name in _BUILT_IN:
        return _BUILT_IN[name](space, seed=seed, trials=trials)
    check_name(name)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return FromOptuna(space, _OPTUNA[name](space, seed))


def default() -> str:
    """tpe if Optuna is installed, otherwise halton."""
    return "halton" if importlib.util.find_spec("optuna") is None else "tpe"


def check_name(name: str) -> None:
    """Refuse an unknown sampler, and one whose package is not installed."""
    if name not in NAMES:
        raise unknown("sampler", name, NAMES)
    if name in _OPTUNA:
        try:
            import optuna  # noqa: F401

            if name == "cma":
                import cmaes  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                f"The sampler '{name}' needs Optuna: pip install \"levelfield[tune]\". Without it there are "
                f"{', '.join(_BUILT_IN)}."
            ) from error


def _at(space: Space, point: np.ndarray) -> dict[str, Any]:
    return {key: span.at(float(share)) for (key, span), share in zip(space.items(), point, strict=True)}
