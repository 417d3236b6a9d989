"""Finished runs joined to one: their test embeddings side by side, measured, and their models as one model."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from levelfield.embedder import save_ensemble
from levelfield.errors import BadInput
from levelfield.evaluation import joined
from levelfield.files import link_whole, write_json, write_text, write_whole
from levelfield.methods import Deviation
from levelfield.studies.ground import Tell
from levelfield.studies.measuring import measure
from levelfield.studies.store import Result, read_result
from levelfield.training.ledger import Measured

ENSEMBLE = "ensemble.yaml"
_SUMMED = (
    "step", "images", "seconds", "waiting", "planning", "rows_through_trunk", "memory_rows", "rows_changed",
    "idle_batches",
)  # fmt: skip
_COUNTED = ("images", "steps", "rows_through_trunk", "memory_rows", "rows_changed")
_OWN = ("members", "dim", "trunk_passes")  # deviations that a joined run has of its own


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
        trained = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        described = next((name for name in ("run.yaml", ENSEMBLE) if (folder / name).is_file()), None)
        facts = yaml.safe_load((folder / described).read_text(encoding="utf-8")) if described else {}
        return cls(folder, result, trained, facts)

    @property
    def identity(self) -> str:
        return str(self.described.get("identity", self.folder.resolve()))

    @property
    def label(self) -> str:
        return str(self.described.get("method", {}).get("label", "ensemble"))

    @property
    def models(self) -> int:
        """How many networks it consists of: more than one if it was joined itself."""
        return int(self.trained["measured"].get("members", 1))

    @property
    def passes(self) -> float:
        """Rows through the trunk for each training image."""
        done = self.trained["measured"]
        told = [one["method"] for one in self.trained["deviations"] if one["what"] == "trunk_passes"]
        return float(told[0]) if told else float(done["images"] > 0)

    @cached_property
    def items(self) -> list[tuple[str, str]]:
        """Path and class of each test image; none if nothing was tested."""
        if not (self.folder / "items.csv").is_file():
            return []
        with (self.folder / "items.csv").open(encoding="utf-8", newline="") as file:
            return [(line["path"], line["class"]) for line in csv.DictReader(file)]

    @cached_property
    def labels(self) -> np.ndarray:
        """The classes of the test images as numbers, as the run counted them."""
        with np.load(self.folder / "per_query.npz") as arrays:
            found: np.ndarray = arrays["labels"]
            return found

    @property
    def rows(self) -> np.ndarray:
        found: np.ndarray = np.load(self.folder / "embeddings.npy", mmap_mode="r", allow_pickle=False)
        return found


def join(
    folders: Sequence[Path],
    folder: Path,
    metrics: tuple[str, ...],
    *,
    about: Mapping[str, Any] | None = None,
    tell: Tell = lambda text, done, total: None,
) -> list[Member]:
    """Join the finished runs of `folders` in `folder`, which then is a finished run too: model, embeddings, figures.

    They must have been tested on the same images. Each file appears whole, metrics.json last; after an interruption the
    same call goes on. `about` is kept with the model. Gives the members.
    """
    members = checked(folders)
    _claim(folder, members)
    if not (folder / "training.json").exists():
        tell("joining", 0, 1)
        _write(members, folder, {"method": "ensemble", **(about or {})})
    measure(folder, members[0].labels if members[0].items else None, metrics, tell)
    return members


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


def _claim(folder: Path, members: Sequence[Member]) -> None:
    """Write down what is joined here, or refuse a folder in which something else is."""
    described, identity = folder / ENSEMBLE, joined_identity(members)
    if described.exists():
        found = yaml.safe_load(described.read_text(encoding="utf-8"))["identity"]
        if found != identity:
            raise BadInput(f"{folder} joins other runs (its {ENSEMBLE} says {found}, these are {identity}). Choose "
                           "another folder, or remove it.")
        return
    content = {"identity": identity, "members": [_told(member) for member in members]}
    write_text(described, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _told(member: Member) -> dict[str, Any]:
    facts = {key: member.described[key] for key in ("seed", "fold", "member") if member.described.get(key) is not None}
    return {"label": member.label, **facts, "identity": member.identity, "folder": str(member.folder)}


def _write(members: Sequence[Member], folder: Path, about: dict[str, Any]) -> None:
    """Everything but the figures; training.json last."""
    if members[0].items:
        rows = joined([member.rows for member in members])
        write_whole(folder / "embeddings.npy", lambda file: np.save(file, rows))
        link_whole(members[0].folder / "items.csv", folder / "items.csv")
    for place, member in enumerate(members):
        for name in ("run.yaml", ENSEMBLE):
            if (member.folder / name).is_file():
                link_whole(member.folder / name, folder / "members" / str(place) / name)
    save_ensemble(folder, [member.folder for member in members], about)
    write_json(folder / "training.json", _training(members))


def _training(members: Sequence[Member]) -> dict[str, Any]:
    """What the members cost together, and in what they depart from the conditions."""
    summaries = [member.result.summary for member in members]
    summary: dict[str, Any] = {key: sum(each.get(key, 0) for each in summaries) for key in _SUMMED}
    summary |= {
        "collapsed": any(each["collapsed"] for each in summaries),
        "finished": any(each.get("finished", False) for each in summaries),
        "best": None,
        "history": [],
    }
    done = [member.trained["measured"] for member in members]
    measured = Measured(
        dim=sum(each["dim"] for each in done),
        refined="yes" if any(each["refined"] for each in done) else "",
        **{key: sum(each[key] for each in done) for key in _COUNTED},
    )
    deviations = [{**asdict(each), "text": each.text} for each in _own_deviations(members, measured.dim)]
    theirs = {each["text"]: each for member in members for each in member.result.deviations if each["what"] not in _OWN}
    models = sum(member.models for member in members)
    return {
        "summary": summary,
        "measured": {**asdict(measured), "members": models},
        "deviations": [*deviations, *theirs.values()],
    }


def _own_deviations(members: Sequence[Member], dim: int) -> list[Deviation]:
    conditions = [member.described["conditions"] for member in members if "conditions" in member.described]
    dims = {each["dim"] for each in conditions}
    usual = dims.pop() if len(dims) == 1 else None
    found = [Deviation("members", 1, sum(member.models for member in members))]
    if dim != usual:
        found.append(Deviation("dim", usual, dim))
    passes = round(sum(member.passes for member in members), 3)
    if passes > 1:
        found.append(Deviation("trunk_passes", 1, int(passes) if passes == int(passes) else passes))
    return found


def _difference(first: list[tuple[str, str]], other: list[tuple[str, str]]) -> str:
    if len(first) != len(other):
        return f"{len(other):,} images against {len(first):,}"
    paths, others = [path for path, _ in first], [path for path, _ in other]
    if paths != others:
        if sorted(paths) == sorted(others):
            return "their order differs"
        here = next(path for path in others if path not in set(paths))
        return f"{here} is tested in the one and not in the other"
    place = next(k for k, pair in enumerate(first) if pair != other[k])
    return f"{paths[place]} is of class '{other[place][1]}' in the one and '{first[place][1]}' in the other"
