"""The specification of a run: its identity, the runs it depends on, and its folder name."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from levelfield.data.views.named import parse_steps
from levelfield.errors import BadInput, LevelfieldError
from levelfield.files.plain_yaml import read_written
from levelfield.files.reading import damaged, digest
from levelfield.files.writing import expanded
from levelfield.methods import Deviation
from levelfield.randomness import numpy_stream
from levelfield.studies.runs.folder.files import explain_first, of_a_run
from levelfield.studies.specification.choices import Data, FolderName, MethodSpec, ProtocolChoice
from levelfield.studies.specification.locations import Location
from levelfield.studies.specification.methods import rate_notes, settings_under
from levelfield.studies.specification.study import Variation
from levelfield.training import Conditions

ENSEMBLE = "ensemble.yaml"
DESCRIPTIONS = ("run.yaml", ENSEMBLE)  # a run that joins others has both
_UNHASHED: dict[str, Any] = {"needs": True, "weights_from": True, "data": {"root"}, "method": {"label", "conditions"}}


class Needed(BaseModel, extra="forbid", frozen=True):
    """A run that another run needs: the name of its folder in the study, or the path of a run folder."""

    name: str
    identity: str


class RunSpec(BaseModel, extra="forbid", frozen=True):
    """One method, one seed, one fold (one member, one variation), with all settings resolved."""

    data: Data
    protocol: ProtocolChoice
    conditions: Conditions  # the conditions of this run: the common ones, updated with the method's own
    common: dict[str, Any] = Field(default_factory=dict)  # common values of the conditions in which the method differs
    method: MethodSpec
    seed: int
    fold: int | None = None  # the fold to train, if the protocol has several
    member: int | None = None  # the member to train, if the method has several
    joined: bool = False  # whether the run joins the embeddings of the runs it needs, and trains nothing
    needs: tuple[Needed, ...] = ()
    weights_from: Needed | None = None  # the run that trains its network, if the two differ only in `refine`
    device: str = "cpu"  # the kind of device, since two kinds do not give the same bits
    data_digest: str = ""
    code_digest: str = ""

    @cached_property
    def identity(self) -> str:
        """A hash of everything that can change the weights; labels and metrics are excluded."""
        # images are identified by their content (`data_digest`), not by their location
        content = self.model_dump(mode="json", exclude=_UNHASHED)
        if self.data_digest and self.data.is_a_place:
            content["data"] = {}  # the same images at another path are the same data
        content["needs"] = [need.identity for need in self.needs]
        if self.conditions.rates == "published":
            content["method"]["settings"] = self.settings  # with multipliers, which follow from presets and defaults
        return digest(json.dumps(content, sort_keys=True))

    @property
    def weights(self) -> str:
        """The identity of the trained network: runs with the same one differ only in what is done at test time."""
        if self.conditions.select != "budget":  # validation classes, refined too, choose the weights
            return self.identity
        settings = {key: value for key, value in self.method.settings.items() if key != "refine"}
        plain = self.method.model_copy(update={"settings": settings})
        return self.model_copy(update={"method": plain}).identity

    @property
    def dependencies(self) -> tuple[Needed, ...]:
        """All runs that must be finished before this one."""
        return self.needs if self.weights_from is None else (*self.needs, self.weights_from)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> RunSpec:
        """A copy is another run: it gets an identity of its own."""
        copied = super().model_copy(update=update, deep=deep)
        vars(copied).pop("identity", None)
        return copied

    @property
    def settings(self) -> dict[str, Any]:
        """The method's settings under the conditions, with multipliers of published rates (`rates`)."""
        return settings_under(self.method, self.conditions)

    @property
    def common_conditions(self) -> Conditions:
        """The conditions that all methods of the study share."""
        return Conditions.model_validate({**self.conditions.model_dump(mode="json"), **self.common})

    def with_deviations(self, settled: Sequence[Deviation]) -> list[Deviation]:
        """The method's own conditions and the deviations of its ledger, each against the common value."""
        notes = rate_notes(self.method, self.conditions)

        def origin(deviation: Deviation) -> str:
            """The published rate of a group's learning rate; measured rates are only nearly equal to it."""
            if not deviation.what.startswith("lr_of_"):
                return ""
            near = (text for rate, text in notes.items() if math.isclose(rate, deviation.method, rel_tol=1e-5))
            return next(near, "")

        common = {key: _in_short(value) for key, value in self.common.items()}
        values = {key: _in_short(getattr(self.conditions, key)) for key in common}
        deviations = {key: Deviation(key, value, values[key]) for key, value in common.items()}
        deviations |= {each.what: replace(each, condition=common.get(each.what, each.condition)) for each in settled}
        return [replace(each, note=origin(each)) for each in deviations.values()]

    @property
    def training_seed(self) -> int:
        """The seed of all random draws of training; members are as independent as seeds."""
        return int(numpy_stream(self.seed, "part", self.part).integers(2**31)) if self.part else self.seed

    @property
    def part(self) -> str:
        """The name of a fold or member, which another run joins; empty for a whole run.

        >>> RunSpec.model_construct(fold=2, member=None).part
        'fold 2'
        """
        numbers = (("fold", self.fold), ("member", self.member))
        return ", ".join(f"{name} {number}" for name, number in numbers if number is not None)

    @property
    def folder_name(self) -> str:
        part = "".join(f"{text.replace(' ', '')}-" for text in self.part.split(", ") if text)
        return f"seed{self.seed}-{part}{self.identity}"


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study, with its label and its varied values."""

    spec: RunSpec
    label: FolderName
    variation: Variation = ()
    seeded: bool = True  # whether another seed would give another result

    def folder(self, study_folder: Path) -> Path:
        """The folder under its label, or an existing one under another label: relabelling does not retrain."""
        folder = study_folder / self.label / self.spec.folder_name
        return folder if folder.exists() else min(study_folder.glob(f"*/{folder.name}"), default=folder)

    @property
    def row(self) -> str:
        """The leaderboard row of this run. Members share one row, besides that of the run which joins them."""
        plain = self.label + "".join(f" [{key.split('.')[-1]}={value}]" for key, value in self.variation)
        return f"{plain} (separated)" if self.spec.part else plain

    @property
    def title(self) -> str:
        """The name of this run in messages."""
        return f"{self.row}, seed {self.spec.seed}" + (f", {self.spec.part}" if self.spec.part else "")


def _in_short(value: Any) -> Any:
    """The steps of a view in short form; other values unchanged.

    >>> _in_short([{"resize": [256, 256]}, {"crop": 224}, {"flip": {"p": 0.3}}])
    'resize 256x256, crop 224, flip p=0.3'
    """
    if not isinstance(value, list | tuple) or not all(isinstance(each, dict) for each in value):
        return value
    steps = []
    for step in parse_steps(value):
        settings = dict(step.settings)
        size = settings.pop("size", None)
        sides = size if isinstance(size, tuple) else [size] if size else []
        steps.append(" ".join([step.name, "x".join(map(str, sides)), *(f"{k}={v}" for k, v in settings.items())]))
    return ", ".join(" ".join(each.split()) for each in steps)


class _Described(RunSpec, extra="ignore", frozen=True):
    """The content of run.yaml; further keys say how the run was made."""

    recorded_identity: str = Field(alias="identity")
    place: Location | None = None


class _Joined(BaseModel):
    """The keys of ensemble.yaml that are read."""

    class Run(BaseModel):
        folder: str
        identity: str

    identity: str
    members: list[Run] = Field(min_length=1)


def needed_folder(run_folder: Path, needed: Needed) -> Path:
    """The folder of a run that `run_folder` needs: in the same study, or at the path in its name."""
    folder = min(run_folder.parent.parent.glob(f"*/{needed.name}"), default=expanded(needed.name))
    if recorded_identity(folder) != needed.identity:
        raise BadInput(f"{run_folder} needs the run {needed.name} ({needed.identity}), which no longer exists.")
    return folder


def recorded_identity(folder: Path) -> str | None:
    """The identity that a run folder was made with; None if it is not a run folder."""
    return described_in(folder).get("identity")


def described_in(folder: Path, names: Sequence[str] = DESCRIPTIONS) -> dict[str, Any]:
    """The content of the first of these files in a folder; empty if there is none."""
    described = next((folder / name for name in names if os.path.lexists(folder / name)), None)
    if described is None:
        return {}
    form = _Joined if described.name == ENSEMBLE else _Described
    with of_a_run():
        content: dict[str, Any] = read_written(described)
        try:
            form.model_validate(content)
        except (ValidationError, LevelfieldError) as error:
            raise damaged(described, f"does not describe a run: {explain_first(error)}") from error
        return content
