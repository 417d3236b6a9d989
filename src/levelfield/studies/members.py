"""Members: finished runs that are joined to one, and what they must have in common."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.contents import read_json
from levelfield.embedder.model_files import within
from levelfield.errors import BadInput, Damaged
from levelfield.methods import Deviation
from levelfield.plain_yaml import read_written
from levelfield.studies.measuring import refined_text
from levelfield.studies.runs import RunSpec
from levelfield.studies.store import Result, read_result, read_spec

ENSEMBLE = "ensemble.yaml"
PLACE = ("seed", "fold", "member")  # what tells the runs of one label apart


@dataclass(frozen=True)
class Member:
    """A finished run that is to be joined with others."""

    folder: Path
    result: Result
    trained: dict[str, Any]
    described: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Member:
        result = read_result(folder)
        if result is None or not (folder / "training.json").is_file():
            raise BadInput(f"{folder} is no finished run, and only finished ones can be joined.")
        trained = read_json(folder / "training.json")
        described = next((name for name in ("run.yaml", ENSEMBLE) if (folder / name).is_file()), None)
        facts = read_written(folder / described) if described else {}
        return cls(folder, result, trained, facts)

    @property
    def descriptions(self) -> list[Path]:
        """The files that say what was run here and, of an ensemble, in its members."""
        names = ("run.yaml", ENSEMBLE)
        own = [self.folder / name for name in names if (self.folder / name).is_file()]
        return [*own, *(path for name in names for path in sorted((self.folder / "members").rglob(name)))]

    @property
    def identity(self) -> str:
        return str(self.described.get("identity", self.folder.resolve()))

    @property
    def label(self) -> str:
        return str(self.described.get("method", {}).get("label", self.folder.name))

    @property
    def title(self) -> str:
        """What a person calls this run."""
        facts = [f"{key} {self.described[key]}" for key in PLACE if self.described.get(key) is not None]
        return ", ".join([self.label, *facts])

    @property
    def dim(self) -> int:
        return int(self.trained["measured"]["dim"])

    @property
    def models(self) -> int:
        """How many networks it consists of: more than one if it was joined itself."""
        return int(self.trained["measured"].get("members", 1))

    @property
    def passes(self) -> float:
        """Rows through the trunk for each training image."""
        done = self.trained["measured"]
        if "passes" in done:
            return float(done["passes"])
        told = [one["method"] for one in self.trained["deviations"] if one["what"] == "trunk_passes"]
        return float(told[0]) if told else float(done["images"] > 0)

    @property
    def refined(self) -> str:
        """How its embeddings were changed at test time; empty if they were not."""
        return refined_text(self.trained["measured"])

    @cached_property
    def items(self) -> list[tuple[str, str, str]]:
        """Path, class and role of each test image; none if nothing was tested."""
        if not (self.folder / "items.csv").is_file():
            return []
        with (self.folder / "items.csv").open(encoding="utf-8", newline="") as file:
            return [(line["path"], line["class"], line.get("role", "")) for line in csv.DictReader(file)]

    @cached_property
    def labels(self) -> np.ndarray:
        """The classes of the test images as numbers, as the run counted them."""
        with np.load(self.folder / "per_query.npz") as arrays:
            found: np.ndarray = arrays["all_labels" if "all_labels" in arrays else "labels"]
            return found

    @property
    def rows(self) -> np.ndarray:
        found: np.ndarray = np.load(self.folder / "embeddings.npy", mmap_mode="r", allow_pickle=False)
        return found


def checked(folders: Sequence[Path]) -> list[Member]:
    """The runs, if they can be joined."""
    members = [Member.of(Path(each)) for each in folders]
    if not members:
        raise BadInput("There is nothing to join: no run was named.")
    first = members[0]
    for place, other in enumerate(members[1:], start=1):
        for earlier in members[:place]:
            if other.identity == earlier.identity:
                raise BadInput(f"{other.folder} and {earlier.folder} are the same run: joined with itself it says "
                               "nothing new.")
        if other.items != first.items:
            raise BadInput(f"{other.folder} and {first.folder} were not tested on the same images: "
                           f"{_difference(first.items, other.items)}.")
    return members


def joined_identity(members: Sequence[Member]) -> str:
    """What decides the embeddings of an ensemble: its members, in their order."""
    text = json.dumps([member.identity for member in members])
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def joined_here(folder: Path) -> str:
    """The identity of the ensemble in a folder."""
    return str(read_ensemble(folder)["identity"])


def read_ensemble(folder: Path) -> dict[str, Any]:
    """What ensemble.yaml says is joined in a folder."""
    content = read_written(folder / ENSEMBLE)
    if not isinstance(content, dict) or "identity" not in content or not isinstance(content.get("members"), list):
        raise Damaged(f"{folder / ENSEMBLE} does not say which runs are joined. Join them again.")
    return content


def spec_of(folder: Path, *, trained: bool = True) -> RunSpec:
    """The specification that says which images trained a run; of an ensemble, that of its members if they agree.

    trained: False where only the test images matter, which folds have in common.
    """
    if not (folder / ENSEMBLE).is_file():
        return read_spec(folder)
    count = len(read_ensemble(folder)["members"])
    specs = [spec_of(within(folder, f"members/{place}"), trained=trained) for place in range(count)]
    if not specs:
        raise Damaged(f"{folder / ENSEMBLE} names no run that is joined.")
    first = specs[0]
    decisive = ("protocol", *(("fold",) if trained else ()))
    for other in specs[1:]:
        if _images(other) != _images(first) or any(getattr(other, key) != getattr(first, key) for key in decisive):
            raise BadInput(f"The members of {folder} were not trained on the same images, so that it has no training "
                           "or validation classes of its own.")
    return first


def trained_otherwise(members: Sequence[Member], under: RunSpec) -> list[Deviation]:
    """In what the members' conditions, protocols and images are not those of the run that joins them.

    Within a study there is nothing; a run of another one may have had more steps, or more classes to train on.
    """
    ours = _circumstances(under)
    found: dict[str, Deviation] = {}
    for member in members:
        for path in member.descriptions:
            theirs = _circumstances(read_spec(path.parent)) if path.name == "run.yaml" else {}
            differ = [key for key, value in theirs.items() if value != ours.get(key)]
            told = [Deviation(f"joined_{key}", ours.get(key), theirs[key]) for key in differ]
            found |= {each.text: each for each in told}
    return list(found.values())


def _circumstances(spec: RunSpec) -> dict[str, Any]:
    # of the conditions those that are common; what a method has of its own stands in its ledger. dim: of all together
    shared = spec.common_conditions.model_dump(mode="json", exclude={"dim", "monitor", "threads"})
    protocol = {"protocol" if key == "name" else f"protocol {key}": said for key, said in spec.protocol}
    return {"data": _images(spec), **protocol, **shared}


def _images(spec: RunSpec) -> str:
    """The images of a run: a dataset's name and their content; wherever they lie, the same ones are the same."""
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
        return f"{here} is tested in the one and not in the other"
    place = next(k for k, item in enumerate(first) if item != other[k])
    if first[place][1] == other[place][1]:
        return "in the one all are looked for among all, in the other queries in a gallery, or not the same queries"
    return f"{paths[place]} is of class '{other[place][1]}' in the one and '{first[place][1]}' in the other"
