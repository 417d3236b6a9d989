"""Format the facts about one part for `levelfield list`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from levelfield.objectives import ObjectiveFacts


def first_fact(describe: Callable[[str], Any], name: str) -> str:
    """The fact shown beside `name` in a list."""
    facts = describe(name)
    if isinstance(facts, str):
        return facts
    for key in ("what", "text", "rule", "formula", "paper"):
        if getattr(facts, key, ""):
            return str(getattr(facts, key))
    return ""


def all_facts(name: str, facts: Any) -> RenderableType:
    """All facts about `name`."""
    if isinstance(facts, ObjectiveFacts):
        return _objective(name, facts)
    if isinstance(facts, str) or not dataclasses.is_dataclass(facts):
        return Text(f"{name}: {facts}")
    values = {field.name.replace("_", " "): getattr(facts, field.name) for field in dataclasses.fields(facts)}
    return _pairs(name, {key: _shown(value) for key, value in values.items() if value not in (None, "", (), {}, [])})


def grouped(presets: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Join presets with equal settings: their names -> the settings.

    >>> grouped({"roth2020": {"margin": 0.2}, "roth2020/cars": {"margin": 0.2}})
    {'roth2020, roth2020/cars': 'margin 0.2'}
    """
    groups: dict[str, list[str]] = {}
    for preset, settings in presets.items():
        groups.setdefault(", ".join(f"{key} {as_written(value)}" for key, value in settings.items()), []).append(preset)
    return {", ".join(names): text or "the defaults" for text, names in groups.items()}


def as_written(value: Any) -> str:
    """A value as written in a study file.

    >>> as_written({"semihard": {"mode": "closest", "margin": None}})
    '{semihard: {mode: closest, margin: null}}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {as_written(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(as_written, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_range(search_range: Any) -> str:
    """A search range of `ObjectiveFacts.search` in words.

    >>> as_range((0.02, 0.5, "log")), as_range([False, True])
    ('0.02 to 0.5 (log)', 'false, true')
    """
    if not search_range:
        return ""
    if len(search_range) == 3 and search_range[2] in ("log", "linear"):
        return f"{search_range[0]:g} to {search_range[1]:g}" + (" (log)" if search_range[2] == "log" else "")
    return ", ".join(map(as_written, search_range))


def _objective(name: str, facts: ObjectiveFacts) -> RenderableType:
    known = {
        "loss": facts.formula,
        "paper": facts.paper,
        "equation": facts.equation,
        "use": facts.use,
        "tuples": facts.tuples,
        "batch": facts.batch,
        "miners": ", ".join(facts.miners) or "none: uses the whole batch by its own rule",
        "needs": ", ".join(facts.needs),
        "weights": "one per anchor" if facts.weights else "none: it has no anchors among the samples",
        "memory": "optional, of earlier batches (memory: 1024)" if facts.memory else "none: the batch alone",
        "accumulate": "in one pass" if facts.separable else "in two passes: the samples depend on each other",
        **{law.replace("_", " "): f"does not hold. {reason}" for law, reason in facts.tags.items()},
    }
    shown: list[RenderableType] = [_pairs(name, {key: text for key, text in known.items() if text})]
    settings = Table("setting", "default", "search", "source of the default", pad_edge=False)
    for key, default in facts.defaults.items():
        if default is not inspect.Parameter.empty and key != "generator":
            settings.add_row(key, as_written(default), as_range(facts.search.get(key)), facts.sources.get(key, ""))
    if settings.row_count:
        shown.append(Padding(settings, (1, 0, 0, 0)))
    if facts.presets:
        presets = Table("preset", "sets", pad_edge=False)
        for names, text in grouped(facts.presets).items():
            presets.add_row(names, text)
        shown.append(Padding(presets, (1, 0, 0, 0)))
    return Group(*shown)


def _pairs(title: str, values: Mapping[str, str]) -> Table:
    table = Table(title=title, show_header=False, title_justify="left", pad_edge=False)
    for key, text in values.items():
        table.add_row(key, Text(text))  # Text: brackets in a formula are not markup
    return table


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {as_written(entry)}" for key, entry in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
