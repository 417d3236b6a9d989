"""Join finished runs: concatenate their test embeddings, combine the models, and compare them with their members."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.embedder import save_ensemble
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, joined
from levelfield.evaluation.statistics.intervals import class_interval
from levelfield.files.plain_yaml import write_yaml
from levelfield.files.writing import link_whole, write_whole
from levelfield.methods import Deviation
from levelfield.methods.deviations import point_of
from levelfield.progress import SILENT, Progress
from levelfield.studies.runs.evaluation import score_run
from levelfield.studies.runs.folder.files import EMBEDDINGS, FINISHED, ITEMS, PER_QUERY, TRAINED, write_training
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import Result, class_means
from levelfield.studies.runs.joined.members import Member, checked, joined_here, joined_identity, trained_otherwise
from levelfield.studies.runs.spec import ENSEMBLE, RunSpec
from levelfield.training.ledger import Measured

_COUNTED = ("images", "rows_through_trunk", "memory_rows", "rows_changed")
_SUMMED = ("step", "seconds", "waiting", "planning", "idle_batches", *_COUNTED)
_DERIVED = ("summary.json", FINISHED, TRAINED, "model.yaml", PER_QUERY, EMBEDDINGS, ITEMS)

_Score = tuple[float, tuple[np.ndarray, np.ndarray] | None]  # a metric, and its means and counts of classes, if any


def join(
    folders: Sequence[Path],
    folder: Path,
    metrics: tuple[str, ...],
    *,
    about: Mapping[str, Any] | None = None,
    under: RunSpec | None = None,
    progress: Progress = SILENT,
) -> list[Member]:
    """Join the finished runs of `folders`, which have the same test images, into `folder`, a finished run with model,
    embeddings and scores. After an interruption the same call continues. Returns the members.

    about: stored with the model. under: the run of a study that joins them; folds of its protocol are not a deviation,
    members trained under other conditions, in another study, are.
    """
    members = checked(folders)
    _claim(folder, members)
    if not (folder / TRAINED).exists():
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
    if not (folder / FINISHED).exists() and joined_here(folder) == joined_identity(members):
        return  # an interrupted attempt
    if not force:
        raise BadInput(f"{folder} already holds an ensemble: choose another --out, or replace it with --force.")
    shutil.rmtree(folder / "members", ignore_errors=True)
    for name in (*_DERIVED, ENSEMBLE):  # the description last, so that an interrupted removal can be repeated
        (folder / name).unlink(missing_ok=True)


def _claim(folder: Path, members: Sequence[Member]) -> None:
    """Write the description of the ensemble, or refuse a folder with another ensemble."""
    described, identity = folder / ENSEMBLE, joined_identity(members)
    if described.exists():
        if (recorded := joined_here(folder)) != identity:
            reason = f"its {ENSEMBLE} says {recorded}, these are {identity}"
            raise BadInput(f"{folder} joins other runs ({reason}). Choose another folder, or remove it.")
        return
    content: dict[str, Any] = {"identity": identity, "members": []}
    for member in members:
        source = {**member.numbers, "identity": member.identity, "folder": str(member.folder)}
        content["members"].append({"label": member.label, **source})
    write_yaml(described, content)


def _write(members: Sequence[Member], folder: Path, about: dict[str, Any], under: RunSpec | None) -> None:
    """Write everything except the scores; training.json last."""
    if members[0].items:
        rows = joined([member.rows for member in members])
        write_whole(folder / EMBEDDINGS, lambda file: np.save(file, rows))
        link_whole(members[0].folder / ITEMS, folder / ITEMS)
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
        "peak_bytes": _over(max, [each.get("peak_bytes") for each in summaries]),  # members train one after another
        "weights": _over(sum, [each.get("weights") for each in summaries]),
        "operations": _over(sum, [each.get("operations") for each in summaries]),
        "collapsed": any(each["collapsed"] for each in summaries),
        "finished": any(each.get("finished", False) for each in summaries),
        "best": None,
        "history": [],
    }
    done = [member.result.measured for member in members]
    measured = Measured(
        dim=sum(member.dim for member in members),
        bits=max(each.get("bits", 32) for each in done),
        refined="yes" if any(member.refined for member in members) else "",
        **{key: sum(each.get(key, 0) for each in done) for key in ("extra_parameters", "steps", *_COUNTED)},
    )
    models, passes = sum(each.get("members", 1) for each in done), sum(member.passes for member in members)
    deviations = _deviations(members, measured, models, passes, 1 if under is None else under.protocol.folds)
    deviations += [] if under is None else trained_otherwise(members, under)
    every = [each for member in members for each in member.result.deviations]
    theirs = {each["text"]: each for each in every if not point_of(each["what"]).joined}
    return {
        "summary": summary,
        "measured": {**asdict(measured), "members": models, "passes": passes},
        "deviations": [*({**asdict(each), "text": each.text} for each in deviations), *theirs.values()],
    }


def _over(combine: Callable[[list[int]], int], counts: Sequence[int | None]) -> int | None:
    """The sum or maximum; None if a member did not record its count."""
    recorded = [count for count in counts if count is not None]
    return combine(recorded) if len(recorded) == len(counts) else None


def _deviations(
    members: Sequence[Member], measured: Measured, models: int, passes: float, usual: int
) -> list[Deviation]:
    """The deviations of the joined run itself. usual: number of folds that every method joins."""
    described = [member.described for member in members if "conditions" in member.described]
    dims = {each.get("common", {}).get("dim", each["conditions"]["dim"]) for each in described}  # the common dim
    passes = round(passes, 3)
    deviations = [
        Deviation("members", usual, models),
        Deviation("dim", usual * dims.pop() if len(dims) == 1 else None, measured.dim),
        Deviation("trunk_passes", usual, int(passes) if passes == int(passes) else passes),
        Deviation("extra_parameters", 0, measured.extra_parameters),
    ]
    return [each for each in deviations if each.method and each.method != each.condition]


@dataclass(frozen=True)
class Figure:
    """A score with its interval over test classes; None if the metric has no value per query."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Separated:
    """Scores by metric: of each member, their mean, and of the joined embeddings.

    The interval of the mean is over classes, like the others, and does not cover retraining.
    """

    members: list[dict[str, Figure]]
    separated: dict[str, Figure]
    joined: dict[str, Figure]


def separate(members: Sequence[Member], together: Result, metrics: Sequence[str], *, progress: Progress) -> Separated:
    """Compare an ensemble with its members. Missing scores, or those with another definition, are computed now."""
    alone = []
    stage = progress.stage("evaluating members", len(members))
    for member in members:
        alone.append(_scores(member, together, metrics))
        stage.advance()
    return Separated(
        [{name: _figure([scores[name]]) for name in metrics} for scores in alone],
        {name: _figure([scores[name] for scores in alone]) for name in metrics},
        {name: _figure([(together.values[name], together.by_class.get(name))]) for name in metrics},
    )


def _scores(member: Member, together: Result, metrics: Sequence[str]) -> dict[str, _Score]:
    alone = member.result
    definitions = {name: signature["definition"] for name, signature in alone.signatures.items()}
    stored = [name for name in metrics if definitions.get(name) == together.signatures[name]["definition"]]
    scores: dict[str, _Score] = {name: (alone.values[name], alone.by_class.get(name)) for name in stored}
    missing = [name for name in metrics if name not in stored]
    if missing:
        arrays = Items.read(member.folder).arrays(member.rows, member.labels)  # with the gallery, if there is one
        result = evaluate(**arrays, metrics=missing)
        labels = arrays["labels"][result.counted]
        for name in missing:
            queries = result.per_query.get(name)
            scores[name] = result[name], None if queries is None else class_means(queries[result.counted], labels)
    return scores


def _figure(scores: Sequence[_Score]) -> Figure:
    value = float(np.mean([value for value, _ in scores]))
    classes = [by_class for _, by_class in scores if by_class is not None]
    if len(classes) < len(scores) or not len(classes[0][0]):
        return Figure(value)
    interval = class_interval(np.stack([means for means, _ in classes]), classes[0][1])
    return Figure(value) if interval is None else Figure(value, interval.low, interval.high)
