"""The specification: one pydantic model for YAML files, command-line overrides and Python."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator, model_validator

from levelfield.errors import BadSpecification, LevelfieldError, nearest, suggestion
from levelfield.files.plain_yaml import read_yaml
from levelfield.ranges import Range
from levelfield.studies.specification.choices import (
    Claim,
    Data,
    FolderName,
    MethodSpec,
    ProtocolChoice,
    RecipeRecord,
    TuningRecord,
)
from levelfield.training.conditions import Conditions, Names

_VARIABLE = ("data", "protocol", "conditions", "methods")
Variation = tuple[tuple[str, Any], ...]  # keys and values of `vary`

MOST_SEEDS, MOST_RUNS = 10_000, 100_000  # more are a mistake, and would fill the memory


class Study(BaseModel, extra="forbid", frozen=True):
    """Conditions x methods x seeds (x variations).

    >>> study = Study.model_validate({"data": "emoji", "methods": ["margin", {"triplet": {"margin": 0.1}}], "seeds": 2})
    >>> study.seeds, study.methods[1].settings
    ((0, 1), {'margin': 0.1})
    """

    name: FolderName = "study"
    about: str = ""
    data: Data
    protocol: ProtocolChoice = ProtocolChoice()
    conditions: Conditions = Conditions()
    methods: tuple[MethodSpec, ...] = Field(min_length=1)
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0, 1, 2), min_length=1)
    metrics: Names = Field(("recall@1", "map@r", "nmi"), min_length=1)
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    figures: Names = ()
    corruptions: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    search: dict[str, Any] = Field(default_factory=dict)
    """Ranges for `levelfield tune`, e.g. {hist.tau: [8, 64, log], conditions.trunk_lr: [1e-5, 1e-3, log]}."""
    tuning: TuningRecord | None = None  # how the settings were chosen; written by `levelfield tune`
    recipe: RecipeRecord | None = None  # how its conditions were chosen; written by `levelfield compare --data`

    @field_validator("data", "protocol", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"name": str(value)} if isinstance(value, str | Path) else value

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("must be a count or a list of whole numbers")
        if isinstance(value, int) and not 1 <= value <= MOST_SEEDS:
            raise ValueError(f"must be between 1 and {MOST_SEEDS:,}, or a list of seeds")
        return tuple(range(value)) if isinstance(value, int) else value

    @field_validator("methods", mode="before")
    @classmethod
    def _one_method_may_stand_alone(cls, value: Any) -> Any:
        if isinstance(value, str | dict):
            return (value,)
        if not isinstance(value, list | tuple):
            raise ValueError("must be a list of methods, e.g. [triplet, {margin: {beta: 0.6}}], or one method")
        return value

    @field_validator("corruptions", mode="before")
    @classmethod
    def _all_or_some(cls, value: Any) -> Any:
        """`all`, or names of corruptions: every run is also evaluated on corrupted test images."""
        if not value:
            return ()

        from levelfield.data import corruptions

        try:
            return corruptions.chosen(value)
        except LevelfieldError as error:
            raise ValueError(str(error).rstrip(".")) from error

    @field_validator("vary")
    @classmethod
    def _something_varies(cls, value: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in value.items():
            if key.partition(".")[0] not in _VARIABLE:
                raise ValueError(f"'{key}' cannot vary; only keys of {', '.join(_VARIABLE)} can, e.g. conditions.dim")
            if not values or any(entry in values[:k] for k, entry in enumerate(values)):
                raise ValueError(f"'{key}' needs a list of distinct values; got {values}")
        return value

    @field_validator("search")
    @classmethod
    def _ranges_are_readable(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key, written in value.items():
            if "." not in key:
                raise ValueError(f"'{key}' is not a setting: write METHOD.SETTING, conditions.NAME or common.NAME")
            if written is None and not key.startswith("common."):  # this setting is not searched
                continue
            try:
                Range.parse(key, written)
            except LevelfieldError as error:
                raise ValueError(str(error).rstrip(".")) from error
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        if self.conditions.select != "budget" and not self.protocol.validates:
            chosen = self.conditions.select
            raise ValueError(f"conditions.select: {chosen} needs validation classes: set protocol.validation, e.g. 0.2")
        for method in self.methods:
            try:
                method.under(self.conditions)
            except ValidationError as error:
                raise ValueError(explain(error, Conditions, f"the conditions of method '{method.label}'")) from error
        runs = math.prod(map(len, (self.methods, self.seeds, *self.vary.values())))
        if runs > MOST_RUNS:
            raise ValueError(f"the study has {runs:,} runs; {MOST_RUNS:,} are the most")
        labels = [method.label for method in self.methods]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two methods are called '{twice[0]}': give one a `label`")
        for name, values in (("seed", self.seeds), ("metric", self.metrics), ("figure", self.figures)):
            if len(set(values)) != len(values):
                raise ValueError(f"{list(values)} contains a {name} twice")
        return self


def parse_study(content: dict[str, Any], overrides: Sequence[str] = (), *, origin: str = "the study") -> Study:
    """A study from plain data. Errors name the key, its value, and the nearest valid key."""
    content = json.loads(json.dumps(content, default=str))
    for override in overrides:
        _apply(content, override)
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise BadSpecification(explain(error, Study, origin)) from error


def variations(study: Study) -> Iterator[tuple[Study, Variation]]:
    """The study for each combination of its varied values; itself if nothing varies."""
    if not study.vary:
        yield study, ()
        return
    for values in itertools.product(*study.vary.values()):
        variation = tuple(zip(study.vary, values, strict=True))
        content = study.model_dump(mode="json", exclude={"vary"})
        for key, value in variation:
            assign(content, key, value)
        yield parse_study(content, origin="vary"), variation


def _apply(content: dict[str, Any], override: str) -> None:
    """Set one dotted key to a value in YAML. `methods.margin.beta=0.6` sets a method's setting."""
    prefix = ""
    if override.startswith("methods.") and content.get("methods"):
        label = owner(override, [method["label"] for method in _method_specs(content["methods"])])
        prefix = "" if label is None else f"methods.{label}"  # the label may contain the sign
    rest, equals, text = override.removeprefix(prefix).partition("=")
    key = prefix + rest
    if not equals or not key:
        raise BadSpecification(f"'{override}' is not an override: write key=value, e.g. conditions.dim=64.")
    assign(content, key.strip(), read_yaml(text, origin=f"'{override}'") if text.strip() else None)


def assign(content: dict[str, Any], key: str, value: Any) -> None:
    """Set the dotted `key` of a study's plain data; `methods.LABEL.SETTING` sets a method's setting.

    >>> plain = {"methods": ["margin"], "conditions": {}}
    >>> assign(plain, "conditions.dim", 64); assign(plain, "methods.margin.beta", 0.6); plain
    {'methods': [{'name': 'margin', 'label': 'margin', 'settings': {'beta': 0.6}}], 'conditions': {'dim': 64}}
    """
    parts = key.split(".")
    if parts[0] == "methods" and len(parts) > 1:
        methods = {method["label"]: method for method in _method_specs(content.get("methods"))}
        label = owner(key, methods)
        if label is None:
            hint = suggestion(parts[1], methods)
            raise BadSpecification(f"'{key}' does not name a method of the study.{hint}")
        setting = key.removeprefix(f"methods.{label}.")
        first, _, condition = setting.partition(".")
        if first != "conditions":
            methods[label]["settings"][setting] = value
        elif condition:
            methods[label].setdefault("conditions", {})[condition] = value
        else:
            methods[label]["conditions"] = value or {}
        content["methods"] = list(methods.values())
        return
    section = content
    for part in parts[:-1]:
        if not isinstance(section.get(part), dict):
            section[part] = {"name": section[part]} if isinstance(section.get(part), str) else {}
        section = section[part]
    if len(parts) == 1 and parts[0] not in Study.model_fields:
        by_short = {**{k: f"conditions.{k}" for k in Conditions.model_fields}, **{k: k for k in Study.model_fields}}
        close = nearest(parts[0], by_short)
        raise BadSpecification(f"Unknown key '{key}'." + (f" Did you mean '{by_short[close]}'?" if close else ""))
    section[parts[-1]] = value


def owner(key: str, labels: Iterable[str]) -> str | None:
    """The label in `methods.LABEL.SETTING`; None if no label matches.

    >>> owner("methods.margin v1.5.beta", ["margin", "margin v1", "margin v1.5"])
    'margin v1.5'
    """
    return max((label for label in labels if key.startswith(f"methods.{label}.")), key=len, default=None)


def _method_specs(entries: Any) -> list[dict[str, Any]]:
    """Methods as plain data in their long form."""
    try:
        return [method.model_dump() for method in TypeAdapter(list[MethodSpec]).validate_python(entries)]
    except ValidationError as error:
        raise BadSpecification(explain(error, Study, "the study's methods")) from error


def explain(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """Pydantic's errors as one readable message."""
    lines, details = [], error.errors()
    for detail in details:
        location = detail["loc"]
        if detail["type"] == "too_short" and any(d["loc"][: len(location)] == location != d["loc"] for d in details):
            continue  # too short only because of wrong entries, which are reported themselves
        where = ".".join(map(str, location))
        if detail["type"] == "extra_forbidden":
            hint = suggestion(location[-1], _keys_at(model, location[:-1]), otherwise="Valid keys")
            lines.append(f"unknown key '{where}'.{hint}")
        elif detail["type"] == "missing":
            lines.append(f"the key '{where}' is missing.")
        else:
            value = "" if isinstance(detail["input"], dict) else f" (got {detail['input']!r})"
            text = detail["msg"].removeprefix("Value error, ")
            message = f"{where}: {text}{value}" if where else text
            lines.append(message if message.endswith((".", "?")) else f"{message}.")
    return f"In {origin}: " + "\n".join(lines)


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    for part in location:
        kind = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        for candidate in (kind, *get_args(kind)):  # the type, or the entries of a list of it
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                model = candidate
    return sorted(model.model_fields)
