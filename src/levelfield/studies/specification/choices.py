"""Choices of a study: data, protocol, methods, claims; and the record of how settings were chosen."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import to_jsonable_python

from levelfield import data
from levelfield.errors import BadSpecification, suggestion
from levelfield.registry import is_file_reference
from levelfield.training.conditions import Conditions

EMBEDDED = "emoji"  # the embedded data, known to be intact and free of leaks
_LONGEST_NAME = 200  # bytes; file systems allow 255, and temporary names are longer
_SETTINGS = {"batch": "batch: 25x4", "batching": "batching: n_pair", "lr": "lr: 0.001", "tuning_trials": "trials: 8"}
_SELECTION = ("select", "selection", "validate_every", "validate_start", "min_delta", "monitor", "patience")
NOT_OF_ITS_OWN = {  # conditions that cannot differ for one method, with the reason
    **{key: f"set it as a method setting, e.g. margin: {{{text}}}" for key, text in _SETTINGS.items()},
    **dict.fromkeys(_SELECTION, "selection and validation are the same for all methods"),
    "threads": "this is a machine setting, not a method setting",
}


def check_folder_name(text: str) -> str:
    """The text, if it can name a folder.

    >>> check_folder_name("a/b")
    Traceback (most recent call last):
    ...
    ValueError: 'a/b' cannot be a folder name: use at most 200 bytes, no slash, and no dot at the start
    """
    wrong = not text.strip() or re.search(r"[/\\\x00-\x1f\x7f\ud800-\udfff]", text) or text.startswith(".")
    if wrong or len(text.encode()) > _LONGEST_NAME:
        rule = f"use at most {_LONGEST_NAME} bytes, no slash, and no dot at the start"
        raise ValueError(f"{text[:40]!r} cannot be a folder name: {rule}")
    return text


FolderName = Annotated[str, AfterValidator(check_folder_name)]


class _Named(BaseModel, extra="allow", frozen=True):
    """A name, and settings beside it."""

    name: str

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Data(_Named):
    """Where the images are: a dataset's name or a path, with its settings."""

    @property
    def is_a_place(self) -> bool:
        """Whether the name is a location of images (folder, list, function), not a known dataset."""
        if self.name in ("folder", "csv", EMBEDDED):  # known without the room of data, which costs more than the rest
            return self.name != EMBEDDED
        return self.name not in data.names()


class ProtocolChoice(_Named):
    """The protocol: which classes train, validate and test, with its own settings."""

    name: str = "standard"
    validation: float = Field(0.0, ge=0, lt=1, description="share of the training classes used for validation")

    @property
    def folds(self) -> int:
        if not is_file_reference(self.name) and self.name not in data.protocols.registry:
            return 1
        return data.protocols.fold_count(self.name, self.settings)

    @property
    def validates(self) -> bool:
        """Whether some training classes are kept for validation, as in every protocol with several folds."""
        # parsing a study does not run a user's file: its protocol may have several folds
        return self.validation > 0 or is_file_reference(self.name) or self.folds > 1

    def divide(self, catalog: data.Catalog) -> list[data.Fold]:
        return data.protocols.create(self.name, catalog, validation=self.validation, **self.settings)


class MethodSpec(BaseModel, extra="forbid", frozen=True):
    """A method of the study, written `contrastive`, `triplet: {margin: 0.1}`, or with a `label`.

    `preset` selects a paper's settings: `margin: {preset: roth2020/cub}`.
    `conditions` holds conditions of this method alone: `margin: {conditions: {optimiser: rmsprop}}`.
    """

    name: str
    label: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    conditions: dict[str, Any] = Field(default_factory=dict)  # they replace the common ones and count as deviations

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "name" not in value:
            rest = {key: entry for key, entry in value.items() if key != "label"}
            if len(rest) != 1:
                keys = ", ".join(map(str, value))
                raise ValueError(f"a method is a name or `name: {{settings}}`, with or without a `label`; got {keys}")
            ((name, settings),) = rest.items()
            settings = dict(settings) if isinstance(settings, dict) else settings or {}
            conditions = settings.pop("conditions", None) or {} if isinstance(settings, dict) else {}
            return {"name": str(name), "settings": settings, "label": value.get("label", ""), "conditions": conditions}
        return value

    @field_validator("conditions")
    @classmethod
    def _only_what_may_differ(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if key in NOT_OF_ITS_OWN:
                raise ValueError(f"'{key}' cannot differ for one method: {NOT_OF_ITS_OWN[key]}")
        return value

    @model_serializer(mode="wrap")
    def _without_empty_conditions(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if name != "conditions" or value}

    def under(self, common: Conditions) -> Conditions:
        """The common conditions, updated with the method's own."""
        if not self.conditions:
            return common
        return Conditions.model_validate({**common.model_dump(mode="json"), **self.conditions})

    @model_validator(mode="after")
    def _label_is_the_name(self) -> MethodSpec:
        if not self.label:
            plain = self.name.rpartition(":")[2]  # the last part of `my_losses.py:MyLoss` or `pml:CircleLoss`
            object.__setattr__(self, "label", plain)
        check_folder_name(self.label)
        return self


class Claim(BaseModel, extra="forbid", frozen=True):
    """`a > b`: row a is better. `a = b`: the rows differ by at most `within`. Rows are named by label.

    >>> Claim(claim="margin > triplet").parts
    ('margin', '>', 'triplet')
    """

    claim: str
    metric: str = ""  # A metric of the study; default: its first
    source: str = ""  # source of the claim, e.g. `roth2020 table 4`
    within: float = Field(0.02, gt=0)
    trials: int | None = Field(None, ge=1)  # the tuning budget that the claim is about: trials of both methods

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"claim": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _is_readable(self) -> Claim:
        _ = self.parts
        return self

    @property
    def parts(self) -> tuple[str, str, str]:
        match = re.match(r"(.+?)\s+([>=])\s+(.+)$", self.claim)
        if match is None:
            raise ValueError("write a claim as `a > b` or `a = b`, with the labels of two methods")
        return match[1], match[2], match[3]


def check_claims(claims: Sequence[Claim], rows: Sequence[str], metrics: Sequence[str]) -> None:
    """Refuse claims about rows or metrics that the study does not have."""
    for claim in claims:
        first, _, second = claim.parts
        name = f"The claim '{claim.claim}'"
        if first == second:
            raise BadSpecification(f"{name} compares a row with itself: name two rows.")
        if label := next((label for label in (first, second) if label not in rows), None):
            hint = suggestion(label, rows, otherwise="Rows")
            raise BadSpecification(f"{name} names '{label}', which is not a row of the study.{hint}")
        if claim.metric and claim.metric not in metrics:
            remedy = "which the study does not measure: add it to metrics"
            raise BadSpecification(f"{name} is about '{claim.metric}', {remedy}.")


def differing(common: Conditions, conditions: Conditions) -> dict[str, Any]:
    """The common values of the conditions in which a method differs.

    >>> differing(Conditions(dim=64), Conditions(dim=2048, codes="binary"))
    {'dim': 64, 'codes': 'float32'}
    """
    keys = [key for key in Conditions.model_fields if getattr(common, key) != getattr(conditions, key)]
    return {key: to_jsonable_python(getattr(common, key)) for key in keys}


class TunedMethod(BaseModel, extra="forbid", frozen=True):
    """The search for one method's settings. All scores are on validation classes."""

    trial: int | None = Field(None, ge=0)
    """The chosen trial; trial 0 has the study's own settings. None: nothing to search, or every trial failed."""
    chosen: dict[str, Any] = Field(default_factory=dict)
    values: tuple[float | None, ...] = ()  # the score of each trial in order; None if the trial failed
    ranges: dict[str, list[Any]] = Field(default_factory=dict)
    settings: tuple[dict[str, Any], ...] = ()  # the settings of each trial
    seconds: float = Field(0.0, ge=0)
    images: int = Field(0, ge=0)

    @property
    def complete(self) -> list[float]:
        """The scores of the trials that did not fail."""
        return [value for value in self.values if value is not None]


class TuningRecord(BaseModel, extra="forbid", frozen=True):
    """The budget, which is the same for every method, and the result of the search."""

    budget: str
    metric: str
    judged_by: str
    sampler: str
    seed: int = 0
    methods: dict[str, TunedMethod] = Field(default_factory=dict)
    common: TunedMethod | None = None
    """The search for conditions that all methods share, if any: the mean score of all methods decided."""

    @property
    def trials(self) -> int:
        """The smallest number of trials of a searched method."""
        return min((len(m.values) for m in self.methods.values() if m.ranges), default=0)

    def of(self, labels: Set[str]) -> TuningRecord:
        """The record of these methods alone; the study may have been narrowed to a few of those that were tuned."""
        return self.model_copy(update={"methods": {k: tuned for k, tuned in self.methods.items() if k in labels}})


class RecipeRecord(BaseModel, extra="forbid", frozen=True):
    """What the recipe for photos tried in short trainings, judged by validation classes.

    sizes: scores of the untrained features by image size; scores: of each method by its steps; untried: methods for
    which there was no time; best: the row that the validation classes prefer.
    """

    time: str
    metric: str
    judged_by: str
    sizes: dict[int, float]
    scores: dict[str, dict[int, float]]
    untried: tuple[str, ...] = ()
    best: str
