"""The plan: which runs a study consists of. A run is identified by what can change its weights."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from levelfield import methods
from levelfield.errors import BadSpecification, LevelfieldError
from levelfield.registry import is_file_reference
from levelfield.studies.specification import Competitor, Data, ProtocolChoice, Study, assign, owner, parse_study
from levelfield.training import Conditions


class RunSpec(BaseModel):
    """One method, one seed, one fold, one variation. Everything resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    data: Data
    protocol: ProtocolChoice
    conditions: Conditions
    method: Competitor
    seed: int
    fold: int = 0
    device: str = "cpu"
    """Its kind: two kinds of processor do not give the same bits."""
    data_digest: str = ""
    code_digest: str = ""

    @property
    def identity(self) -> str:
        """A hash of all that can change the weights; labels and metrics are not part of it."""
        content = self.model_dump(mode="json", exclude={"method": {"label"}})
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class PlannedRun:
    """A run with its place in the study: the label it is shown under and the values that vary."""

    spec: RunSpec
    label: str
    variation: tuple[tuple[str, Any], ...] = ()

    def folder(self, study_folder: Path) -> Path:
        """Under its label, or where it was made under another one: a new label trains nothing again."""
        own = study_folder / self.label / f"seed{self.spec.seed}-{self.spec.identity}"
        return own if own.exists() else min(study_folder.glob(f"*/{own.name}"), default=own)

    @property
    def row(self) -> str:
        """The leaderboard row this run counts in."""
        return self.label + "".join(f" [{key.split('.')[-1]}={value}]" for key, value in self.variation)


def plan(study: Study, *, digest: Callable[[Data], str] = lambda data: "", device: str = "cpu") -> list[PlannedRun]:
    """All runs of a study: seed by seed, so that every method has a first result early.

    digest: the identity of the images a study names; asked once for each data that varies.
    """
    planned = []
    digests: dict[str, str] = {}
    there: set[tuple[str, str, int]] = set()
    for varied, variation in _variations(study):
        key = varied.data.model_dump_json()
        digests[key] = digests.get(key) or digest(varied.data)
        for seed in varied.seeds:
            for method in varied.methods:
                if seed != varied.seeds[0] and not methods.is_seeded(method.name):
                    continue
                spec = RunSpec(
                    data=varied.data,
                    protocol=varied.protocol,
                    conditions=varied.conditions,
                    method=method,
                    seed=seed,
                    device=device.split(":")[0],
                    data_digest=digests[key],
                    code_digest=_file_digest(method.name, varied.conditions.weights),
                )
                run = PlannedRun(spec, method.label, _own(variation, method.label, [m.label for m in varied.methods]))
                if (run.row, spec.identity, seed) not in there:  # a setting of one method varies no other
                    planned.append(run)
                there.add((run.row, spec.identity, seed))
    return planned


def check_methods(study: Study) -> None:
    """Build every method once with two classes, so that a wrong name or setting is found before anything trains."""
    for varied, _ in _variations(study):
        for method in varied.methods:
            try:
                methods.create(method.name, num_classes=2, dim=varied.conditions.dim, **method.settings)
            except LevelfieldError as error:
                raise type(error)(f"Method '{method.label}': {error}") from error
            except Exception as error:  # somebody's own code may raise anything
                if not is_file_reference(method.name):
                    raise
                told = f"Method '{method.label}' cannot be made: {type(error).__name__}: {error}"
                raise BadSpecification(f"{told} (levelfield -v shows where).") from error


def _variations(study: Study) -> Iterator[tuple[Study, tuple[tuple[str, Any], ...]]]:
    keys = list(study.vary)
    for values in itertools.product(*study.vary.values()):
        content = study.model_dump(mode="json", exclude={"vary"})
        for key, value in zip(keys, values, strict=True):
            assign(content, key, value)
        yield parse_study(content, origin="vary"), tuple(zip(keys, values, strict=True))


def _own(variation: tuple[tuple[str, Any], ...], label: str, labels: list[str]) -> tuple[tuple[str, Any], ...]:
    """What varies for this method: not the settings of the others."""
    return tuple((key, value) for key, value in variation if owner(key, labels) in (None, label))


def _file_digest(method: str, weights: str | None) -> str:
    """The content of a user's own files: another loss or other weights under the same name are another run."""
    named = [method.rpartition(":")[0]] if is_file_reference(method) else []
    named += [weights] if weights not in (None, "random") else []
    return "-".join(_content(Path(name).expanduser()) for name in named)


def _content(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest() if path.is_file() else "missing"
