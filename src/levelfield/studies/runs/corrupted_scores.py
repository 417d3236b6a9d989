"""Evaluate finished runs on corrupted test images (lim2022 A.3), the same images for every run.

`corrupted/NAME.npy` of a run folder holds the embeddings, `corrupted/NAME.json` their description and scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from levelfield.data import corruptions
from levelfield.data.views import StepsView, TestView
from levelfield.data.views.corrupted import CorruptedView
from levelfield.embedder import Ensemble, Model, load
from levelfield.embedder.devices import requested
from levelfield.embedder.model_files import within
from levelfield.errors import BadInput, BadSpecification, Damaged, LevelfieldError
from levelfield.evaluation import Evaluation, evaluate
from levelfield.files.arrays import read_array
from levelfield.files.reading import checksum, read_json
from levelfield.files.writing import write_json, write_whole
from levelfield.progress import SILENT, Progress
from levelfield.registry import short_name
from levelfield.studies.runs.finished import how_many_models, how_refined, inputs_of, stored_test
from levelfield.studies.runs.folder.items import refined
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.trust import trusting

FOLDER = "corrupted"
TOGETHER = 8  # models in memory at once; they share the computation below the cut


class _Description(BaseModel):
    """The content of `corrupted/NAME.json`, with the checksum of the embeddings."""

    corruption: str
    values: dict[str, Annotated[float, Field(strict=True)]]
    checksum: str


def evaluate_corrupted(
    folder: Path, names: Sequence[str], *, metrics: Sequence[str], progress: Progress = SILENT, **settings: Any
) -> dict[str, Evaluation]:
    """Evaluate a run on its test images, clean and under each corruption, by the key "clean" or the corruption's name.
    `settings` are passed to `evaluate`. Embeddings are computed once and kept in the run folder."""
    rows, items = stored_test(folder)
    evaluations = {"clean": evaluate(**{**items.arrays(rows), **settings}, metrics=metrics)}
    if not all(_is_stored(folder, name) for name in names):
        _fill({folder: load(folder, device=requested())}, _tested(folder), names, progress=progress)
    for name in names:
        rows = read_array(_path(folder, name, "npy"), kinds="f")
        evaluations[name] = evaluate(**{**items.arrays(rows), **settings}, metrics=metrics)
    return evaluations


def record(
    folders: Sequence[Path],
    names: Sequence[str],
    metrics: Sequence[str],
    progress: Mapping[Path, Progress] = MappingProxyType({}),
) -> dict[Path, str]:
    """Evaluate finished runs under the corruptions and store missing scores in their folders. Returns the failed runs
    with the reason; they do not stop the others."""
    failed: dict[Path, str] = {}
    by_images: dict[tuple[Path, ...], list[Path]] = {}
    for folder in folders:
        try:
            if _lacks_scores(folder, names, metrics):
                by_images.setdefault(_tested(folder), []).append(folder)
        except LevelfieldError as error:
            failed[folder] = str(error)
    for images, same in by_images.items():
        for group in (same[start : start + TOGETHER] for start in range(0, len(same), TOGETHER)):
            models = {}
            for folder in group:
                try:
                    models[folder] = load(folder, device=requested())
                except LevelfieldError as error:
                    failed[folder] = str(error)
            try:
                _fill(models, images, names, of_runs=progress)
                for folder in models:
                    for name in names:
                        _measure(folder, name, metrics)
                    progress.get(folder, SILENT).report("corrupted", len(names), len(names))
            except LevelfieldError as error:  # such as an image that is gone: it stops all runs of the group
                failed |= {folder: str(error) for folder in models if _lacks_scores(folder, names, metrics)}
    return failed


def _lacks_scores(folder: Path, names: Sequence[str], metrics: Sequence[str]) -> bool:
    """Whether the run has not been evaluated yet under one of the corruptions."""
    return any(set(metrics) - recorded(folder, name).keys() for name in names)


def recorded(folder: Path, name: str) -> dict[str, float]:
    """The stored scores of a run under one corruption."""
    description = _description(folder, name)
    return {} if description is None else description.values


@trusting()
def _tested(folder: Path) -> tuple[Path, ...]:
    """The test images of a run; raises if they cannot be embedded again."""
    inputs = inputs_of(folder)
    catalog, tested = inputs.catalog, inputs.fold.test
    _, items = stored_test(folder)
    if not np.array_equal(np.array(catalog.class_names)[catalog.labels[tested]], items.classes):
        raise BadInput(f"The test images of '{catalog.name}' differ from those of the run {folder}.")
    if how_refined(folder) and how_many_models(folder) > 1:
        raise BadInput(
            f"The members of {folder} refine embeddings at test time, which the ensemble cannot repeat: "
            "evaluate the members instead."
        )
    return tuple(catalog.paths[i] for i in tested)


def _fill(
    models: dict[Path, Model | Ensemble],
    images: Sequence[Path],
    names: Sequence[str],
    *,
    progress: Progress = SILENT,
    of_runs: Mapping[Path, Progress] = MappingProxyType({}),
) -> None:
    """Compute the folders embeddings of all models at once."""
    for number, name in enumerate(names):
        corruption = corruptions.create(name)
        folders = [folder for folder in models if not _is_stored(folder, name)]
        for folder in folders:
            of_runs.get(folder, SILENT).report(f"corrupted: {name}", number, len(names))
        if folders:
            together = Ensemble(tuple(_corrupted(models[folder], corruption) for folder in folders), {})
            for folder, rows in zip(folders, together.embed_apart(images, progress=progress), strict=True):
                if how_refined(folder):
                    rows = refined(load_method(folder), rows, stored_test(folder)[1].queries)
                _keep(folder, corruption, rows)


def _corrupted(model: Model | Ensemble, corruption: corruptions.Corruption) -> Model | Ensemble:
    """The same model with the corruption in its test view."""
    if isinstance(model, Ensemble):
        return Ensemble(tuple(_corrupted(member, corruption) for member in model.members), model.about)
    if not isinstance(model.view, TestView | StepsView):
        raise BadSpecification("Corruptions need a test view that resizes and crops; this run has another test view.")
    return replace(model, view=CorruptedView(model.view, corruption))


def _keep(folder: Path, corruption: corruptions.Corruption, rows: np.ndarray) -> None:
    within(folder, FOLDER)  # refuse to write outside the run folder
    path = _path(folder, corruption.name, "npy")
    write_whole(path, lambda file: np.save(file, rows))
    # last: rows without this file do not count
    content = {"corruption": corruption.key, "values": {}, "checksum": checksum(path)}
    write_json(_path(folder, corruption.name, "json"), content)


def _measure(folder: Path, name: str, metrics: Sequence[str]) -> None:
    description = _description(folder, name)
    assert description is not None
    unscored = [metric for metric in metrics if metric not in description.values]
    if unscored:
        rows = read_array(_path(folder, name, "npy"), kinds="f")
        result = evaluate(**stored_test(folder)[1].arrays(rows), metrics=unscored)
        description.values.update({metric: float(result[metric]) for metric in result})
        write_json(_path(folder, name, "json"), description.model_dump())


def _description(folder: Path, name: str) -> _Description | None:
    """The stored description of the embeddings; None if there are none, or if the corruption has changed since."""
    if (folder / FOLDER).is_symlink():
        return None
    try:
        description = _Description.model_validate(read_json(_path(folder, name, "json")))
    except (Damaged, ValidationError):
        return None
    current = description.corruption == corruptions.create(name).key and _path(folder, name, "npy").is_file()
    return description if current else None


def _is_stored(folder: Path, name: str) -> bool:
    """Whether the folder has the embeddings under one corruption, complete and undamaged."""
    description = _description(folder, name)
    return description is not None and description.checksum == checksum(_path(folder, name, "npy"))


def _path(folder: Path, name: str, suffix: str) -> Path:
    return folder / FOLDER / f"{short_name(name)}.{suffix}"
