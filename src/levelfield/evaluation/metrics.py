"""The metrics by name: what each is, in which forms, and the error for a name that is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from levelfield.errors import BadSpecification, unknown
from levelfield.registry import Registry

_registry: Registry[Any] = Registry("metric", "metrics")
register = _registry.register


@dataclass(frozen=True)
class Facts:
    """What is known about a metric. `kind`: `retrieval` (a value per query) or `clustering` (a value per start)."""

    kind: str
    text: str
    forms: tuple[str, ...] = ()  # the first is the default


@dataclass(frozen=True)
class Metric:
    """One metric as asked for: `map@c[released]` is entry `map@c` in form `released`."""

    name: str
    entry: str
    k: int | None
    form: str | None

    @property
    def kind(self) -> str:
        return str(describe(self.entry).kind)

    @property
    def compute(self) -> Callable[..., Any]:
        return _registry.get(self.entry)


def names() -> list[str]:
    """All metrics; K stands for any whole number."""
    return _registry.names()


def describe(name: str) -> Facts:
    """What is known about a metric.

    >>> describe("recall@10").text
    '1 if a relative is among the first K, else 0'
    """
    facts: Facts = _registry.facts(name if name in _registry else parse(name).entry)
    return facts


def parse(name: str) -> Metric:
    """The metric that a name stands for.

    >>> parse("recall@10")
    Metric(name='recall@10', entry='recall@K', k=10, form=None)
    >>> parse("recal@10")
    Traceback (most recent call last):
    ...
    levelfield.errors.UnknownName: Unknown metric 'recal@10'. Did you mean 'recall@10'? See `levelfield list metrics`.
    """
    match = re.fullmatch(r"(?P<base>[^\[\]]+?)(\[(?P<form>[^\[\]]*)\])?", name)
    base, form = (match["base"], match["form"]) if match else (name, None)
    entry, k = base, None
    stem, _, number = base.rpartition("@")
    if base not in _registry and number.isdigit() and f"{stem}@K" in _registry:
        entry, k = f"{stem}@K", int(number)
        if k < 1:
            raise BadSpecification(f"Metric '{name}' asks for {k} neighbours: at least 1 is needed.")
    if entry not in _registry or (entry.endswith("@K") and k is None):
        shown = number if number.isdigit() else "1"
        raise unknown("metric", name, [n.replace("@K", f"@{shown}") for n in names()], see="levelfield list metrics")
    forms = _registry.facts(entry).forms
    if form is not None and form not in forms:
        raise unknown(f"form of metric '{base}'", form, forms) if forms else BadSpecification(
            f"Metric '{base}' has one form only: write '{base}' instead of '{name}'.")
    return Metric(name, entry, k, form or (forms[0] if forms else None))


def parse_all(wanted: Iterable[str] | None, *, k: Iterable[int]) -> list[Metric]:
    """Metrics in the order asked for, each once; a bare `recall` or `precision` stands for one metric per k.

    >>> [metric.name for metric in parse_all(["recall", "mrr"], k=(1, 2))]
    ['recall@1', 'recall@2', 'mrr']
    """
    asked = ["recall", "r_precision", "map@r", "map", "mrr"] if wanted is None else list(wanted)
    if isinstance(wanted, str):
        asked = [wanted]
    full: dict[str, None] = {}
    for name in asked:
        full.update(dict.fromkeys([f"{name}@{n}" for n in k] if name in ("recall", "precision") else [name]))
    return [parse(name) for name in full]
