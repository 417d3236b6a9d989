"""A finished run on corrupted test images (003 A.3): the same corrupted images for every run that is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.data import corruptions
from levelfield.data.corrupted_view import CorruptedView
from levelfield.data.step_views import StepsView
from levelfield.data.views import TestView
from levelfield.embedder import load
from levelfield.embedder.ensemble import Ensemble
from levelfield.embedder.model import Model
from levelfield.errors import BadInput, BadSpecification
from levelfield.evaluation import Evaluation, evaluate
from levelfield.files import write_json, write_whole
from levelfield.studies.again import how_many_models, how_refined, stored_test
from levelfield.studies.ground import ground_for
from levelfield.studies.members import spec_of
from levelfield.studies.stored_method import load_method

FOLDER = "corrupted"


@dataclass(frozen=True)
class Drops:
    """A run's figures on clean and on corrupted test images: `corrupted[corruption][metric]`."""

    clean: dict[str, float]
    corrupted: dict[str, dict[str, float]]

    def drop(self, corruption: str, metric: str) -> float:
        return self.clean[metric] - self.corrupted[corruption][metric]

    def mean_drop(self, metric: str) -> float:
        """The mean over the corruptions that were asked for."""
        return float(np.mean([self.drop(name, metric) for name in self.corrupted]))


def evaluate_corrupted(
    folder: Path, names: Sequence[str], *, metrics: Sequence[str], progress: bool = False, **settings: Any
) -> tuple[Drops, dict[str, Evaluation]]:
    """Evaluate a run on its test images, clean and under each corruption; the evaluations stand under "clean" and the
    corruptions' names. `settings` are those of `evaluate`. Embeddings are kept in the run folder and made once."""
    rows, classes, _ = stored_test(folder)
    found = {"clean": evaluate(rows, classes, metrics=metrics, **settings)}
    for name in names:
        found[name] = evaluate(corrupted_rows(folder, name, progress=progress), classes, metrics=metrics, **settings)
    values = {name: {metric: float(result[metric]) for metric in result} for name, result in found.items()}
    return Drops(values.pop("clean"), values), found


def corrupted_rows(folder: Path, name: str, *, progress: bool = False) -> np.ndarray:
    """The embeddings of a run's test images under the corruption `name`: stored, or made now by its model."""
    corruption = corruptions.create(name)
    path, note = folder / FOLDER / f"{name}.npy", folder / FOLDER / f"{name}.json"
    if not path.exists() or _noted(note).get("corruption") != corruption.key:
        made = _embedded(folder, corruption, progress)
        write_whole(path, lambda file: np.save(file, made))
        write_json(note, {"corruption": corruption.key})  # last: without it the rows do not count
    rows: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return rows


def record(
    folder: Path,
    names: Sequence[str],
    metrics: Sequence[str],
    tell: Callable[[str, int, int], object] = lambda text, done, total: None,
) -> None:
    """Measure a finished run under the corruptions and keep the figures in its folder; what is there stays."""
    _, classes, _ = stored_test(folder)
    for number, name in enumerate(names):
        wanted = [metric for metric in metrics if metric not in recorded(folder, name)]
        if wanted:
            tell(f"corrupted: {name}", number, len(names))
            result = evaluate(corrupted_rows(folder, name), classes, metrics=wanted)
            note = folder / FOLDER / f"{name}.json"
            values = {**recorded(folder, name), **{metric: float(result[metric]) for metric in result}}
            write_json(note, {**_noted(note), "values": values})
    tell("corrupted", len(names), len(names))


def recorded(folder: Path, name: str) -> dict[str, float]:
    """The figures under one corruption that a run folder holds."""
    noted = _noted(folder / FOLDER / f"{name}.json")
    values: dict[str, float] = noted.get("values", {})
    return values if noted.get("corruption") == corruptions.create(name).key else {}


def _noted(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _embedded(folder: Path, corruption: corruptions.Corruption, progress: bool) -> np.ndarray:
    ground = ground_for(spec_of(folder), None, "cpu")
    catalog, tested = ground.catalog, ground.fold.test
    _, classes, _ = stored_test(folder)
    if not np.array_equal(np.array(catalog.class_names)[catalog.labels[tested]], classes):
        raise BadInput(f"The test images of '{catalog.name}' are not those that {folder} was tested on.")
    model = _seeing(load(folder), corruption)
    rows = model.embed([catalog.paths[i] for i in tested], normalize=False, progress=progress)
    if not how_refined(folder):
        return rows
    if how_many_models(folder) > 1:
        raise BadInput(f"The members of {folder} changed their embeddings at test time, which cannot be done again "
                       "for all of them together: ask the members.")
    return load_method(folder).refine(rows)


def _seeing(model: Model | Ensemble, corruption: corruptions.Corruption) -> Model | Ensemble:
    """The same model with the corruption before its eyes."""
    if isinstance(model, Ensemble):
        return Ensemble(tuple(_seeing(member, corruption) for member in model.members), model.about)
    if not isinstance(model.view, TestView | StepsView):
        raise BadSpecification("Only what a test view has resized and cropped can be corrupted.")
    return replace(model, view=CorruptedView(model.view, corruption))
