"""Members of an ensemble: finished runs, and checks that they can be joined."""

from __future__ import annotations

import hashlib
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
from levelfield.methods import Deviation
from levelfield.studies.runs.folder.files import (
    ITEMS,
    TRAINED,
    Checksums,
    read_embeddings,
    read_items,
    read_training,
)
from levelfield.studies.runs.folder.store import Result, read_result, read_spec
from levelfield.studies.runs.spec import DESCRIPTIONS, ENSEMBLE, RunSpec, described_in

PLACE = ("seed", "fold", "member")  # keys that distinguish the runs of one label


@dataclass(frozen=True)
class Member:
    """A finished run to join with others."""

    folder: Path
    result: Result
    trained: dict[str, Any]
    described: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Member:
        result = read_result(folder)
        if result is None or not os.path.lexists(folder / TRAINED):
            raise BadInput(f"{folder} is not a finished run: only finished runs can be joined.")
        return cls(folder, result, read_training(folder), described_in(folder))

    @property
    def descriptions(self) -> list[Path]:
        """The files that describe the run and, for an ensemble, its members."""
        own = [self.folder / name for name in DESCRIPTIONS if (self.folder / name).is_file()]
        return [*own, *(path for name in DESCRIPTIONS for path in sorted((self.folder / "members").rglob(name)))]

    @property
    def identity(self) -> str:
        return str(self.described.get("identity", self.folder.resolve()))

    @property
    def label(self) -> str:
        return str(self.described.get("method", {}).get("label", self.folder.name))

    @property
    def title(self) -> str:
        """The name of this run in messages."""
        facts = [f"{key} {self.described[key]}" for key in PLACE if self.described.get(key) is not None]
        return ", ".join([self.label, *facts])

    @property
    def dim(self) -> int:
        return int(self.trained["measured"]["dim"])

    @property
    def models(self) -> int:
        """The number of its networks: more than one if it is itself an ensemble."""
        return int(self.trained["measured"].get("members", 1))

    @property
    def passes(self) -> float:
        """Rows through the trunk per training image."""
        done = self.trained["measured"]
        if "passes" in done:
            return float(done["passes"])
        values = [one["method"] for one in self.trained["deviations"] if one["what"] == "trunk_passes"]
        return float(values[0]) if values else float(done["images"] > 0)

    @property
    def refined(self) -> str:
        """How its embeddings were refined at test time; empty if they were not."""
        return str(self.trained["measured"].get("refined", ""))

    @cached_property
    def items(self) -> list[tuple[str, str, str]]:
        """Path, class and role of each test image; empty without test images."""
        if not os.path.lexists(self.folder / ITEMS):
            return []
        paths, classes, roles = read_items(self.folder, self._checksums)
        return list(zip(paths, classes, roles or [""] * len(paths), strict=True))

    @cached_property
    def labels(self) -> np.ndarray:
        """The classes of the test images, numbered as in the run."""
        arrays = self.result.queries()
        return arrays["all_labels" if "all_labels" in arrays else "labels"]

    @property
    def rows(self) -> np.ndarray:
        return read_embeddings(self.folder, self._checksums)

    @property
    def _checksums(self) -> Checksums:
        checksums: Checksums = self.trained["checksums"]
        return checksums


def checked(folders: Sequence[Path]) -> list[Member]:
    """The runs as members; raises if they cannot be joined."""
    members = [Member.of(Path(each)) for each in folders]
    if not members:
        raise BadInput("No runs to join: name at least one run.")
    first = members[0]
    for index, other in enumerate(members[1:], start=1):
        for earlier in members[:index]:
            if other.identity == earlier.identity:
                raise BadInput(f"{other.folder} and {earlier.folder} are the same run: name each run once.")
        if not _tested_alike(first, other):
            raise BadInput(
                f"{other.folder} and {first.folder} have different test images: "
                f"{_difference(first.items, other.items)}."
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
    text = json.dumps([member.identity for member in members])
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def joined_here(folder: Path) -> str:
    """The identity of the ensemble in a folder."""
    return str(described_in(folder, [ENSEMBLE])["identity"])


def spec_of(folder: Path, *, trained: bool = True) -> RunSpec:
    """The specification with the training images of a run; for an ensemble, that of its members if they agree.

    trained: False if only the test images matter, which folds share.
    """
    if not (folder / ENSEMBLE).is_file():
        return read_spec(folder)
    count = len(described_in(folder, [ENSEMBLE])["members"])
    specs = [spec_of(within(folder, f"members/{index}"), trained=trained) for index in range(count)]
    first = specs[0]
    decisive = ("protocol", *(("fold",) if trained else ()))
    for other in specs[1:]:
        if _images(other) != _images(first) or any(getattr(other, key) != getattr(first, key) for key in decisive):
            raise BadInput(
                f"The members of {folder} were trained on different images, so it has no common training or "
                "validation classes."
            )
    return first


def trained_otherwise(members: Sequence[Member], under: RunSpec) -> list[Deviation]:
    """Differences in conditions, protocol and images between the members and the run that joins them.

    Empty within a study; a run of another study may have had more steps or more training classes.
    """
    ours = _circumstances(under)
    by_text: dict[str, Deviation] = {}
    for member in members:
        for path in member.descriptions:
            theirs = _circumstances(read_spec(path.parent)) if path.name == "run.yaml" else {}
            differ = [key for key, value in theirs.items() if value != ours.get(key)]
            deviations = [Deviation(f"joined_{key}", ours.get(key), theirs[key]) for key in differ]
            by_text |= {each.text: each for each in deviations}
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


def _difference(first: list[tuple[str, str, str]], other: list[tuple[str, str, str]]) -> str:
    if len(first) != len(other):
        return f"{len(other):,} images against {len(first):,}"
    paths, others = [path for path, _, _ in first], [path for path, _, _ in other]
    if paths != others:
        if sorted(paths) == sorted(others):
            return "their order differs"
        here = next(path for path in others if path not in set(paths))
        return f"{here} is a test image in only one of them"
    index = next(k for k, item in enumerate(first) if item != other[k])
    if first[index][1] == other[index][1]:
        return "only one of them has a gallery, or their queries differ"
    return f"the class of {paths[index]} is '{other[index][1]}' in the first and '{first[index][1]}' in the second"
