"""Choices of a study: data, protocol, methods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import to_jsonable_python

from levelfield.errors import nearest
from levelfield.registry import is_file_reference
from levelfield.settings import accepted
from levelfield.training.conditions import Conditions

if TYPE_CHECKING:  # slow imports that only some keys of a study file need
    from levelfield.data import Catalog, protocols

EMBEDDED = "emoji"  # the embedded data, known to be intact and free of leaks
_LONGEST_NAME = 200  # bytes; file systems allow 255, and temporary names are longer
_BESIDE = "set it as a method setting, e.g. margin: {{{0}}}"
_FAIR = "selection and validation are the same for all methods"
NOT_OF_ITS_OWN = {
    "batch": _BESIDE.format("batch: 25x4"),
    "batching": _BESIDE.format("batching: n_pair"),
    "lr": _BESIDE.format("lr: 0.001"),
    "tuning_trials": _BESIDE.format("trials: 8"),
    **dict.fromkeys(
        ("select", "selection", "validate_every", "validate_start", "min_delta", "monitor", "patience"), _FAIR
    ),
    "threads": "this is a machine setting, not a method setting",
}


class Data(BaseModel):
    """Where the images are: a dataset's name or a path, with its settings."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def is_a_place(self) -> bool:
        """Whether the name is a location of images (folder, list, function), not a known dataset.

        >>> Data(name="photos/birds").is_a_place, Data(name="emoji").is_a_place
        (True, False)
        """
        if self.name in ("folder", "csv", EMBEDDED):  # known without the room of data, which costs more than the rest
            return self.name != EMBEDDED
        from levelfield import data

        return self.name not in data.names()


class ProtocolChoice(BaseModel):
    """The protocol: which classes train, validate and test, with its own settings."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = "standard"
    validation: float = Field(0.0, ge=0, lt=1, description="share of the training classes used for validation")

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def folds(self) -> int:
        from levelfield.data import protocols

        if not is_file_reference(self.name) and self.name not in protocols.registry:
            return 1
        return protocols.fold_count(self.name, self.settings)

    @property
    def validates(self) -> bool:
        """Whether some training classes are kept for validation, as in every protocol with several folds."""
        # parsing a study does not run a user's file: its protocol may have several folds
        return self.validation > 0 or is_file_reference(self.name) or self.folds > 1

    def divide(self, catalog: Catalog) -> list[protocols.Fold]:
        from levelfield.data import protocols

        return protocols.create(self.name, catalog, validation=self.validation, **self.settings)

    @model_validator(mode="after")
    def _settings_are_known(self) -> ProtocolChoice:
        """Refuse unknown keys. An unknown protocol is reported later, when it is created."""
        if not self.settings:
            return self

        from levelfield.data import protocols

        if self.name in protocols.registry:
            takes = sorted({*(accepted(protocols.registry.get(self.name)) or {})} - {"catalog"} | {"name"})
            for key in self.settings:
                if key not in takes:
                    close = nearest(key, takes)
                    hint = f" Did you mean '{close}'?" if close else f" Valid keys: {', '.join(takes)}."
                    raise ValueError(f"unknown key 'protocol.{key}'.{hint}")
        return self


class MethodSpec(BaseModel):
    """A method of the study, written `contrastive`, `triplet: {margin: 0.1}`, or with a `label`.

    `preset` selects a paper's settings: `{name: margin, preset: roth2020/cub}` or `margin: {preset: roth2020/cub}`.
    `conditions` holds conditions of this method alone: `margin: {conditions: {optimiser: rmsprop}}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    label: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    conditions: dict[str, Any] = Field(default_factory=dict)
    """Conditions that replace the common ones; the leaderboard lists them as deviations."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "name" not in value:
            rest = {key: entry for key, entry in value.items() if key != "label"}
            if len(rest) != 1:
                raise ValueError(
                    "a method is a name or `name: {settings}`, optionally with a `label`; got the keys "
                    + ", ".join(map(str, value))
                )
            ((name, settings),) = rest.items()
            settings = dict(settings) if isinstance(settings, dict) else settings or {}
            own = settings.pop("conditions", None) or {} if isinstance(settings, dict) else {}
            return {"name": str(name), "settings": settings, "label": value.get("label", ""), "conditions": own}
        if isinstance(value, dict) and "preset" in value:
            rest = {key: entry for key, entry in value.items() if key != "preset"}
            return rest | {"settings": {**(value.get("settings") or {}), "preset": value["preset"]}}
        return value

    @field_validator("conditions")
    @classmethod
    def _only_what_may_differ(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            if key in NOT_OF_ITS_OWN:
                raise ValueError(f"'{key}' cannot differ for one method: {NOT_OF_ITS_OWN[key]}")
            if key not in Conditions.model_fields:
                close = nearest(key, Conditions.model_fields)
                hint = f" Did you mean '{close}'?" if close else " See docs/study-file.md."
                raise ValueError(f"unknown key 'conditions.{key}' of a method.{hint}")
        return value

    @model_serializer(mode="wrap")
    def _without_what_it_does_not_have(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
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
        check_folder_name("label", self.label)
        return self


def differing(common: Conditions, own: Conditions) -> dict[str, Any]:
    """The common values of the conditions in which a method differs.

    >>> differing(Conditions(dim=64), Conditions(dim=2048, codes="binary"))
    {'dim': 64, 'codes': 'float32'}
    """
    keys = [key for key in Conditions.model_fields if getattr(common, key) != getattr(own, key)]
    return {key: to_jsonable_python(getattr(common, key)) for key in keys}


def check_folder_name(what: str, text: str) -> None:
    """Refuse a text that cannot name a folder.

    >>> check_folder_name("label", "a" * 300)
    Traceback (most recent call last):
    ...
    ValueError: the label 'aaaaaaaaaaaaaaaaaaaa...' cannot be a folder name: it has 300 bytes, at most 200 are allowed
    """
    shown = text if len(text) <= 40 else f"{text[:20]}..."
    if not text.strip() or re.search(r"[/\\\x00-\x1f\x7f\ud800-\udfff]", text) or text.startswith("."):
        raise ValueError(f"the {what} {shown!r} cannot be a folder name")
    if (size := len(text.encode())) > _LONGEST_NAME:
        limit = f"it has {size:,} bytes, at most {_LONGEST_NAME} are allowed"
        raise ValueError(f"the {what} '{shown}' cannot be a folder name: {limit}")
