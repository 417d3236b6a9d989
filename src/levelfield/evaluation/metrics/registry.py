"""Registry of metrics: definitions, forms, and parsing of metric names."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from levelfield.errors import BadSpecification, unknown
from levelfield.evaluation.inputs import Array
from levelfield.registry import Registry, is_file_reference

registry: Registry[Any] = Registry("metric", "metrics", home="levelfield.evaluation.metrics")
register = registry.register
"""Decorator: register a function of ranks, clusters or points under a name, with its `MetricFacts`."""
names = registry.names
"""The names of all metrics; K is any positive integer."""
USUAL = ("recall", "r_precision", "map@r", "map", "mrr")
_DIGITS = 20
_MAX_NEIGHBOURS = 10**9  # ranks are 64-bit integers


@dataclass(frozen=True)
class Number:
    """A number in a metric's name, such as `drop` in `rho[drop=1]`."""

    default: float
    above: float
    most: float = math.inf
    whole: bool = False

    @property
    def range(self) -> str:
        lower = f"an integer from {self.above + 1:g}" if self.whole else f"a number above {self.above:g}"
        return lower + (f" and at most {self.most:g}" if self.most < math.inf else "")

    def __str__(self) -> str:
        return f"{self.range} (default {self.default:g})"

    def checked(self, name: str, value: float | str) -> float:
        """Return the value if it is valid."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not self.above < number <= self.most or math.isinf(number) or (self.whole and number % 1):
            raise BadSpecification(f"{name}={value}: expected {self.range}.")
        return number


@dataclass(frozen=True)
class MetricFacts:
    """Facts of a metric. `kind`: `retrieval` (one value per query), `clustering` (one value per k-means start) or
    `geometry` (one value for the whole set).

    reach: for a retrieval metric, `reach(positives, k)` is the last rank that it reads for queries with that many
    positives, or one rank for all; the rank of the nearest positive is always known. None: it reads the whole list
    (always correct, but slow).
    """

    kind: str
    text: str
    forms: tuple[str, ...] = ()  # the first is the default
    numbers: Mapping[str, Number] = field(default_factory=dict)
    distances: tuple[str, ...] = ()  # supported distances; empty: all
    norm: str = ""  # "unit": rows are normalised to length 1 for every distance
    all_pairs: bool = False  # a geometry metric that visits every pair of rows and advances `stage` for each
    reach: Callable[[Array, Any], Any] | int | None = None


@dataclass(frozen=True)
class Metric:
    """One requested metric: `map@c[released]` is entry `map@c` in form `released`."""

    name: str
    entry: str
    k: int | None
    form: str | None
    numbers: Mapping[str, float]
    facts: MetricFacts = field(repr=False)
    compute: Callable[..., Any] = field(repr=False, compare=False)
    kind: str = field(repr=False)


def describe(name: str) -> MetricFacts:
    """Facts of a metric, such as those of "recall@K" for "recall@10"."""
    facts: MetricFacts = registry.facts(name) if name in registry else parse(name).facts
    return facts


def parse(name: str) -> Metric:
    """Parse the name of a metric; `my_metrics.py:function` loads a user's metric, which runs the file.

    >>> parse("recall@10")
    Metric(name='recall@10', entry='recall@K', k=10, form=None, numbers={})
    >>> parse("rho[drop=1,reverse]").numbers
    {'drop': 1.0}
    """
    match = re.fullmatch(r"(?P<base>[^\[\]]+?)(\[(?P<form>[^\[\]]*)\])?", name)
    base, form = (match["base"], match["form"]) if match else (name, None)
    entry, k = base, None
    stem, _, number = base.rpartition("@")
    if number.isdecimal():
        entry = f"{stem}@K"
        k = int(number) if len(number) < _DIGITS else _MAX_NEIGHBOURS + 1
    if entry not in registry and is_file_reference(base):
        entry = base if k is None else stem
    elif entry not in registry or (k is None and entry.endswith("@K")):
        shown = number if number.isdecimal() else "1"
        near = [each.replace("@K", f"@{shown}") for each in names()]
        raise unknown("metric", name, near, see="levelfield list metrics")
    if k is not None and not 1 <= k <= _MAX_NEIGHBOURS:
        raise BadSpecification(f"Metric '{name}': the number of neighbours must be 1 to {_MAX_NEIGHBOURS}, not {k}.")
    compute = registry.get(entry)
    facts = registry.facts(entry) or MetricFacts("retrieval", inspect.getdoc(compute) or "")
    has_forms = form is not None or facts.forms or facts.numbers
    choice, numbers = _form(base, name, form, facts) if has_forms else (None, {})
    return Metric(name, entry, k, choice, numbers, facts, compute, facts.kind)


create = parse
"""Alias of `parse`, under the name that all registries use."""


def _form(base: str, name: str, text: str | None, facts: MetricFacts) -> tuple[str | None, dict[str, float]]:
    """Form and numbers between the brackets, with defaults for the others."""
    forms: list[str] = []
    numbers: dict[str, float] = {}
    for part in text.split(",") if text is not None else ():
        key, equals, value = (word.strip() for word in part.partition("="))
        if not facts.forms and not facts.numbers:
            raise BadSpecification(f"Metric '{base}' has only one form: use '{base}' instead of '{name}'.")
        if key not in (facts.numbers if equals else facts.forms):
            numbered = [f"{known}={value or format(number.default, 'g')}" for known, number in facts.numbers.items()]
            raise unknown(f"form of metric '{base}'", part.strip(), [*facts.forms, *numbered])
        if key in numbers or (forms and not equals):
            raise BadSpecification(f"Metric '{name}' names its form twice; name it once.")
        if equals:
            numbers[key] = facts.numbers[key].checked(f"Metric '{name}': {key}", value)
        else:
            forms.append(key)
    defaults = {key: number.default for key, number in facts.numbers.items()}
    return next(iter([*forms, *facts.forms]), None), {**defaults, **numbers}


def split(text: str) -> list[str]:
    """Split comma-separated names; commas within brackets belong to a name.

    >>> split("recall@1, rho[drop=1,reverse]")
    ['recall@1', 'rho[drop=1,reverse]']
    """
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text) if name.strip()]


def parse_all(wanted: Iterable[str] | None, *, k: Iterable[int]) -> list[Metric]:
    """Metrics in the requested order without duplicates; a bare `recall` or `precision` means one metric per k.

    >>> [metric.name for metric in parse_all("recall, mrr", k=(1, 2))]
    ['recall@1', 'recall@2', 'mrr']
    """
    if isinstance(wanted, str):
        wanted = split(wanted)
    full: dict[str, None] = {}
    for name in USUAL if wanted is None else wanted:
        if not isinstance(name, str):
            raise BadSpecification(f"metrics contains {name!r}; expected names such as 'recall@1'.")
        full.update(dict.fromkeys([f"{name}@{n}" for n in k] if name in ("recall", "precision") else [name]))
    return list(map(parse, full))


def ranking(metrics: Iterable[str]) -> list[str]:
    """Metrics for which larger is better; geometry metrics describe embeddings and do not rank them."""
    metrics = list(metrics)
    comparable = [metric for metric in metrics if parse(metric).kind != "geometry"]
    if not comparable:
        raise BadSpecification(
            f"{', '.join(metrics)}: descriptive metrics cannot rank embeddings. Add a metric that can, such as "
            "recall@1."
        )
    return comparable
