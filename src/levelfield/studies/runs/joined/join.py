"""Join finished runs into one: concatenate their test embeddings, evaluate them, and combine the models."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from levelfield.embedder import save_ensemble
from levelfield.errors import BadInput
from levelfield.evaluation import joined
from levelfield.files.writing import link_whole, write_text, write_whole
from levelfield.methods import Deviation
from levelfield.methods.deviations import point_of
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.evaluation import score_run
from levelfield.studies.runs.folder.files import write_training
from levelfield.studies.runs.joined.members import (
    PLACE,
    Member,
    checked,
    joined_here,
    joined_identity,
    trained_otherwise,
)
from levelfield.studies.runs.spec import ENSEMBLE, RunSpec
from levelfield.training.ledger import Measured

_SUMMED = (
    "step",
    "images",
    "seconds",
    "waiting",
    "planning",
    "rows_through_trunk",
    "memory_rows",
    "rows_changed",
    "idle_batches",
)
_COUNTED = ("extra_parameters", "images", "steps", "rows_through_trunk", "memory_rows", "rows_changed")
_FILES = (
    "summary.json",
    "metrics.json",
    "training.json",
    "model.yaml",
    "per_query.npz",
    "embeddings.npy",
    "items.csv",
    ENSEMBLE,
)


def join(
    folders: Sequence[Path],
    folder: Path,
    metrics: tuple[str, ...],
    *,
    about: Mapping[str, Any] | None = None,
    under: RunSpec | None = None,
    progress: Progress = SILENT,
) -> list[Member]:
    """Join the finished runs of `folders` into `folder`, a finished run with model, embeddings and scores.

    All runs must have the same test images. Files are written atomically, metrics.json last; after an interruption the
    same call continues. about: stored with the model. under: the run of a study that joins them; folds of its protocol
    are not a deviation, members trained under other conditions, in another study, are. Returns the members.
    """
    members = checked(folders)
    _claim(folder, members)
    if not (folder / "training.json").exists():
        stage = progress.stage("joining", 1)
        data = {str(member.described["data"]["name"]) for member in members if "data" in member.described}
        metadata = {"method": "ensemble", "data": ", ".join(sorted(data)), **(about or {})}
        _write(members, folder, metadata, under)
        stage.advance()
    score_run(folder, members[0].labels if members[0].items else None, metrics, progress)
    return members


def free(folder: Path, members: Sequence[Member], *, force: bool) -> None:
    """Prepare `folder` for an ensemble of `members`. A partial one is continued, `force` replaces a finished one;
    nothing else is ever removed."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / ENSEMBLE).is_file() or (folder / "run.yaml").is_file():
        raise BadInput(f"{folder} already exists and is not an ensemble: choose another --out.")
    if any(folder.resolve() == member.folder.resolve() for member in members):
        raise BadInput(f"{folder} is one of the runs to join: choose another --out.")
    if link := next((path for path in folder.rglob("*") if path.is_symlink()), None):
        raise BadInput(f"{link} is a link, and nothing may be written outside of --out: remove the link.")
    begun = not (folder / "metrics.json").exists() and joined_here(folder) == joined_identity(members)
    if begun:
        return
    if not force:
        raise BadInput(f"{folder} already holds an ensemble: choose another --out, or replace it with --force.")
    shutil.rmtree(folder / "members", ignore_errors=True)
    for name in _FILES:  # the description goes last, so that an interrupted removal can be repeated
        (folder / name).unlink(missing_ok=True)


def _claim(folder: Path, members: Sequence[Member]) -> None:
    """Write the description of the ensemble, or refuse a folder with another ensemble."""
    described, identity = folder / ENSEMBLE, joined_identity(members)
    if described.exists():
        if (recorded := joined_here(folder)) != identity:
            raise BadInput(
                f"{folder} joins other runs (its {ENSEMBLE} says {recorded}, these are {identity}). Choose "
                "another folder, or remove it."
            )
        return
    content = {"identity": identity, "members": [_description(member) for member in members]}
    write_text(described, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _description(member: Member) -> dict[str, Any]:
    facts = {key: member.described[key] for key in PLACE if member.described.get(key) is not None}
    return {"label": member.label, **facts, "identity": member.identity, "folder": str(member.folder)}


def _write(members: Sequence[Member], folder: Path, about: dict[str, Any], under: RunSpec | None) -> None:
    """Write everything except the scores; training.json last."""
    if members[0].items:
        rows = joined([member.rows for member in members])
        write_whole(folder / "embeddings.npy", lambda file: np.save(file, rows))
        link_whole(members[0].folder / "items.csv", folder / "items.csv")
    for index, member in enumerate(members):
        for path in member.descriptions:
            link_whole(path, folder / "members" / str(index) / path.relative_to(member.folder))
    save_ensemble(folder, [member.folder for member in members], about)
    write_training(folder, _training(members, under))


def _training(members: Sequence[Member], under: RunSpec | None) -> dict[str, Any]:
    """The total cost of the members, and their deviations from the conditions."""
    summaries = [member.result.summary for member in members]
    summary: dict[str, Any] = {key: sum(each.get(key, 0) for each in summaries) for key in _SUMMED}
    summary |= {
        "peak_bytes": _largest(each.get("peak_bytes") for each in summaries),  # members train one after another
        "weights": _sum(each.get("weights") for each in summaries),
        "operations": _sum(each.get("operations") for each in summaries),
        "collapsed": any(each["collapsed"] for each in summaries),
        "finished": any(each.get("finished", False) for each in summaries),
        "best": None,
        "history": [],
    }
    done = [member.trained["measured"] for member in members]
    measured = Measured(
        dim=sum(member.dim for member in members),
        bits=max(each.get("bits", 32) for each in done),
        refined="yes" if any(member.refined for member in members) else "",
        **{key: sum(each.get(key, 0) for each in done) for key in _COUNTED},
    )
    own = _own_deviations(members, measured, 1 if under is None else under.protocol.folds)
    own += [] if under is None else trained_otherwise(members, under)
    deviations = [{**asdict(each), "text": each.text} for each in own]
    theirs = {
        each["text"]: each
        for member in members
        for each in member.result.deviations
        if not point_of(each["what"]).joined
    }
    models = sum(member.models for member in members)
    return {
        "summary": summary,
        "measured": {**asdict(measured), "members": models, "passes": sum(member.passes for member in members)},
        "deviations": [*deviations, *theirs.values()],
    }


def _largest(counts: Iterable[int | None]) -> int | None:
    counts = list(counts)
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else None


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None if a member did not record its count."""
    counts = list(counts)
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _own_deviations(members: Sequence[Member], measured: Measured, usual: int) -> list[Deviation]:
    described = [member.described for member in members if "conditions" in member.described]
    dims = {each.get("common", {}).get("dim", each["conditions"]["dim"]) for each in described}  # the common dim
    passes = round(sum(member.passes for member in members), 3)
    deviations = [
        Deviation("members", usual, sum(member.models for member in members)),
        Deviation("dim", usual * dims.pop() if len(dims) == 1 else None, measured.dim),
        Deviation("trunk_passes", usual, int(passes) if passes == int(passes) else passes),
        Deviation("extra_parameters", 0, measured.extra_parameters),
    ]
    return [each for each in deviations if each.method and each.method != each.condition]
