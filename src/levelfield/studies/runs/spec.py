"""Runs: what one is identified by, which others it needs, and where it lies."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from levelfield import methods
from levelfield.contents import damaged
from levelfield.data.views.named import parse_steps
from levelfield.errors import BadInput
from levelfield.files import expanded
from levelfield.methods import Deviation
from levelfield.plain_yaml import read_written
from levelfield.randomness import numpy_stream
from levelfield.studies.runs.folder.files import explain_first, of_a_run
from levelfield.studies.specification.choices import Data, MethodSpec, ProtocolChoice
from levelfield.studies.specification.locations import Place
from levelfield.studies.specification.variations import Variation
from levelfield.training import Conditions

ENSEMBLE = "ensemble.yaml"
DESCRIPTIONS = ("run.yaml", ENSEMBLE)  # a run that joins others has both


class Needed(BaseModel):
    """A run that another one waits for: the name of its folder within the study, or a run folder anywhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    identity: str


class RunSpec(BaseModel):
    """One method, one seed, one fold (one member, one variation). Everything resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    data: Data
    protocol: ProtocolChoice
    conditions: Conditions
    """Those that this run trains under: the common ones, with what the method has of its own."""
    common: dict[str, Any] = Field(default_factory=dict)
    """What the others have where the method has conditions of its own."""
    method: MethodSpec
    seed: int
    fold: int | None = None
    """Of a protocol with several folds, one of which is trained here."""
    member: int | None = None
    """Of a method with several members, one of which is trained here."""
    joined: bool = False
    """Trains nothing: the embeddings of the runs it needs, side by side."""
    needs: tuple[Needed, ...] = ()
    device: str = "cpu"
    """Its kind: two kinds of processor do not give the same bits."""
    data_digest: str = ""
    code_digest: str = ""

    @property
    def identity(self) -> str:
        """A hash of all that can change the weights; labels and metrics are not part of it."""
        # the images are known by their content (`data_digest`), wherever they lie
        hidden = {"label", "conditions"}  # they are among the run's
        content = self.model_dump(mode="json", exclude={"method": hidden, "needs": True, "data": {"root"}})
        if self.data_digest and self.data.is_a_place:
            content["data"] = {}  # the same images elsewhere, or spelled otherwise, are the same data
        content |= {"needs": [need.identity for need in self.needs], "fold": self.fold or 0}
        # what says nothing is left out, so that a run is what it was before there were such things
        silent = {"member": self.member is None, "joined": not self.joined, "needs": not self.needs}
        silent["common"] = not self.common
        content = {key: value for key, value in content.items() if not silent.get(key, False)}
        if (revision := methods.revision(self.method.name, self.method.settings)) > 1:
            content["revision"] = revision
        if content["conditions"]["monitor"] == "none":
            del content["conditions"]["monitor"]
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()

    @property
    def common_conditions(self) -> Conditions:
        """What everybody in the study shares."""
        return Conditions.model_validate({**self.conditions.model_dump(mode="json"), **self.common})

    def with_deviations(self, settled: Sequence[Deviation]) -> list[Deviation]:
        """The conditions that the method has of its own, and what else its ledger says, each against what all have."""
        own = self.conditions
        common = {key: _in_short(said) for key, said in self.common.items()}
        found = {key: Deviation(key, said, _in_short(getattr(own, key))) for key, said in common.items()}
        found |= {one.what: replace(one, condition=common.get(one.what, one.condition)) for one in settled}
        return list(found.values())

    @property
    def draws(self) -> int:
        """The seed of everything that training draws: members are trained as independently as seeds are."""
        if not self.is_part:
            return self.seed
        return int(numpy_stream(self.seed, "part", self.part).integers(2**31))

    @property
    def is_part(self) -> bool:
        """Whether it is one member or one fold of several, which another run joins."""
        return self.fold is not None or self.member is not None

    @property
    def part(self) -> str:
        """Which part it is, for people.

        >>> RunSpec.model_construct(fold=2, member=None).part
        'fold 2'
        """
        said = {"fold": self.fold, "member": self.member}
        return ", ".join(f"{name} {number}" for name, number in said.items() if number is not None)

    @property
    def folder_name(self) -> str:
        part = "".join(f"-{text.replace(' ', '')}" for text in self.part.split(", ") if text)
        return f"seed{self.seed}{part}-{self.identity}"


@dataclass(frozen=True)
class PlannedRun:
    """A run with its place in the study: the label it is shown under and the values that vary."""

    spec: RunSpec
    label: str
    variation: Variation = ()
    seeded: bool = True
    """Whether another seed would give another result."""

    def folder(self, study_folder: Path) -> Path:
        """Under its label, or where it was made under another one: a new label trains nothing again."""
        own = study_folder / self.label / self.spec.folder_name
        return own if own.exists() else min(study_folder.glob(f"*/{own.name}"), default=own)

    @property
    def row(self) -> str:
        """The leaderboard row this run counts in. Members share one, beside that of the run which joins them."""
        plain = self.label + "".join(f" [{key.split('.')[-1]}={value}]" for key, value in self.variation)
        return f"{plain} (separated)" if self.spec.is_part else plain

    @property
    def title(self) -> str:
        """What a person calls this run."""
        return f"{self.row}, seed {self.spec.seed}" + (f", {self.spec.part}" if self.spec.is_part else "")


def _in_short(value: Any) -> Any:
    """The steps of a view in few words; anything else as it is.

    >>> _in_short([{"resize": [256, 256]}, {"crop": 224}, {"flip": {"p": 0.3}}])
    'resize 256x256, crop 224, flip p=0.3'
    """
    if not isinstance(value, list | tuple) or not all(isinstance(each, dict) for each in value):
        return value
    told = []
    for step in parse_steps(value):
        settings = dict(step.settings)
        size = settings.pop("size", None)
        sides = size if isinstance(size, tuple) else [size] if size else []
        told.append(" ".join([step.name, "x".join(map(str, sides)), *(f"{k}={v}" for k, v in settings.items())]))
    return ", ".join(" ".join(each.split()) for each in told)


class _Described(BaseModel):
    """What is read of run.yaml without making a specification of it."""

    model_config = ConfigDict(extra="allow")
    identity: str
    data: Data
    method: MethodSpec
    conditions: dict[str, Any]
    common: dict[str, Any] = {}
    seed: int
    fold: int | None = None
    member: int | None = None
    place: Place | None = None


class _JoinedRun(BaseModel):
    folder: str
    identity: str


class _Joined(BaseModel):
    """What is read of ensemble.yaml."""

    model_config = ConfigDict(extra="allow")
    identity: str
    members: list[_JoinedRun] = Field(min_length=1)


def needed_folder(run_folder: Path, needed: Needed) -> Path:
    """Where a run that `run_folder` needs lies: in the same study, or where its name says."""
    within = min(run_folder.parent.parent.glob(f"*/{needed.name}"), default=None)
    folder = expanded(needed.name) if within is None else within
    if recorded_identity(folder) != needed.identity:
        raise BadInput(f"{run_folder} needs the run {needed.name} ({needed.identity}), which is not there any more.")
    return folder


def recorded_identity(folder: Path) -> str | None:
    """What a run folder was made with; None if it is none."""
    return described_in(folder).get("identity")


def described_in(folder: Path, names: Sequence[str] = DESCRIPTIONS) -> dict[str, Any]:
    """What the first of these files of a folder says; nothing if there is none of them."""
    described = next((folder / name for name in names if os.path.lexists(folder / name)), None)
    if described is None:
        return {}
    form = _Joined if described.name == ENSEMBLE else _Described
    with of_a_run():
        content: dict[str, Any] = read_written(described)
        try:
            form.model_validate(content)
        except ValidationError as error:
            raise damaged(described, f"describes no run: {explain_first(error)}") from error
        return content
