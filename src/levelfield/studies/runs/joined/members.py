"""Members of an ensemble: finished runs, and checks that they can be joined."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.embedder.model_files import within
from levelfield.errors import BadInput
from levelfield.files.reading import digest
from levelfield.methods import Deviation
from levelfield.studies.runs.folder.files import ITEMS, TRAINED, read_embeddings
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import Result, read_result, read_spec
from levelfield.studies.runs.spec import DESCRIPTIONS, ENSEMBLE, RunSpec, described_in


@dataclass(frozen=True)
class Member:
    """A finished run to join with others."""

    folder: Path
    result: Result
    described: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Member:
        result = read_result(folder)
        if result is None or not os.path.lexists(folder / TRAINED):
            raise BadInput(f"{folder} is not a finished run: only finished runs can be joined.")
        return cls(folder, result, described_in(folder))

    @property
    def descriptions(self) -> list[Path]:
        """The files that describe the run and, for an ensemble, its members."""
        files = [self.folder / name for name in DESCRIPTIONS if (self.folder / name).is_file()]
        return [*files, *(path for name in DESCRIPTIONS for path in sorted((self.folder / "members").rglob(name)))]

    @property
    def identity(self) -> str:
        return str(self.described.get("identity", self.folder.resolve()))

    @property
    def label(self) -> str:
        return str(self.described.get("method", {}).get("label", self.folder.name))

    @property
    def numbers(self) -> dict[str, int]:
        """What distinguishes the run from others of its label."""
        keys = ("seed", "fold", "member")
        return {key: self.described[key] for key in keys if self.described.get(key) is not None}

    @property
    def title(self) -> str:
        """The name of this run in messages."""
        return ", ".join([self.label, *(f"{key} {number}" for key, number in self.numbers.items())])

    @property
    def dim(self) -> int:
        return int(self.result.measured["dim"])

    @property
    def passes(self) -> float:
        """Rows through the trunk per training image."""
        measured = self.result.measured
        counted = {entry["what"]: entry["method"] for entry in self.result.deviations}.get("trunk_passes")
        default = float(measured["images"] > 0) if counted is None else counted
        return float(measured.get("passes", default))

    @property
    def refined(self) -> str:
        """How its embeddings were refined at test time; empty if they were not."""
        return str(self.result.measured.get("refined", ""))

    @cached_property
    def items(self) -> list[tuple[str, str, str]]:
        """Path, class and role of each test image; empty without test images."""
        if not os.path.lexists(self.folder / ITEMS):
            return []
        items = Items.read(self.folder)
        roles = [""] * len(items.paths) if items.roles is None else items.roles.tolist()
        return list(zip(items.paths, items.classes.tolist(), roles, strict=True))

    @cached_property
    def labels(self) -> np.ndarray:
        """The classes of the test images, numbered as in the run."""
        arrays = self.result.queries()
        return arrays["all_labels" if "all_labels" in arrays else "labels"]

    @property
    def rows(self) -> np.ndarray:
        return read_embeddings(self.folder)


def checked(folders: Sequence[Path]) -> list[Member]:
    """The runs as members; raises if they cannot be joined."""
    members = [Member.of(Path(each)) for each in folders]
    if not members:
        raise BadInput("No runs to join: name at least one run.")
    first = members[0]
    by_identity: dict[str, Member] = {}
    for member in members:
        if member.identity in by_identity:
            earlier = by_identity[member.identity].folder
            raise BadInput(f"{member.folder} and {earlier} are the same run: name each run once.")
        by_identity[member.identity] = member
        if not _tested_alike(first, member):
            pairs = zip(member.items, first.items, strict=False)
            difference = next((f"{item} against {other}" for item, other in pairs if item != other), "one has more")
            raise BadInput(
                f"{member.folder} and {first.folder} have different test images ({len(member.items):,} and "
                f"{len(first.items):,}; path, class and role): {difference}."
            )
    return members


def _tested_alike(first: Member, other: Member) -> bool:
    """Whether two runs have the same test images in the same order, by path or, if the data was moved, by content."""
    if first.items == other.items:
        return True
    named = ([(os.path.basename(path), *rest) for path, *rest in member.items] for member in (first, other))
    if next(named) != next(named):
        return False
    ours, theirs = (spec_of(member.folder, trained=False) for member in (first, other))
    return bool(ours.data_digest) and _images(ours) == _images(theirs) and ours.protocol == theirs.protocol


def joined_identity(members: Sequence[Member]) -> str:
    """The identity of an ensemble: that of its members, in order."""
    return digest(json.dumps([member.identity for member in members]))


def joined_here(folder: Path) -> str:
    """The identity of the ensemble in a folder."""
    return str(described_in(folder, [ENSEMBLE])["identity"])


def spec_of(folder: Path, *, trained: bool = True) -> RunSpec:
    """The specification with the training images of a run; for an ensemble, that of its members if they agree. trained:
    False if only the test images matter, which folds share."""
    if not (folder / ENSEMBLE).is_file():
        return read_spec(folder)
    count = len(described_in(folder, [ENSEMBLE])["members"])
    specs = [spec_of(within(folder, f"members/{index}"), trained=trained) for index in range(count)]
    if len({(_images(spec), spec.protocol.model_dump_json(), spec.fold if trained else None) for spec in specs}) > 1:
        raise BadInput(
            f"The members of {folder} were trained on different images, so it has no common training or validation "
            "classes."
        )
    return specs[0]


def trained_otherwise(members: Sequence[Member], under: RunSpec) -> list[Deviation]:
    """Differences in conditions, protocol and images between the members and the run that joins them, if any."""
    ours = _circumstances(under)
    by_text: dict[str, Deviation] = {}
    for path in (path for member in members for path in member.descriptions if path.name == "run.yaml"):
        for key, value in _circumstances(read_spec(path.parent)).items():
            if value != ours.get(key):
                deviation = Deviation(f"joined_{key}", ours.get(key), value)
                by_text[deviation.text] = deviation
    return list(by_text.values())


def _circumstances(spec: RunSpec) -> dict[str, Any]:
    # the common conditions; a method's own are in its ledger. dim: of all members together
    shared = spec.common_conditions.model_dump(mode="json", exclude={"dim", "monitor", "threads"})
    protocol = {"protocol" if key == "name" else f"protocol {key}": value for key, value in spec.protocol}
    return {"data": _images(spec), **protocol, **shared}


def _images(spec: RunSpec) -> str:
    """The images of a run: name and content of the dataset, independent of its location."""
    name = "images" if spec.data_digest and spec.data.is_a_place else spec.data.name
    return f"{name} {spec.data_digest}".strip()
