"""Finished runs with drawn test images and embeddings, written by hand: no training, known neighbours."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from made_runs import CLASSES, LABELS, class_means, embed, planned, write_run
from PIL import Image

from levelfield.reports import Report
from levelfield.reports.finish import gathered
from levelfield.reports.page.collect import collect
from levelfield.reports.page.content import Data
from levelfield.studies.runs.folder.store import read_plan, write_plan
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study, parse_study
from levelfield.studies.specification.yaml_file import read_study

METHODS = ("contrastive", "triplet", "untrained")


def draw(folder: Path, labels: np.ndarray = LABELS) -> list[Path]:
    """One image per label: the images of a class share a pattern of 4 x 4 fields."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 256, size=(int(labels.max()) + 1, 4, 4, 3))
    paths = []
    for number, label in enumerate(labels):
        pixels = np.clip(patterns[label] + random.normal(0, 30, size=(4, 4, 3)), 0, 255).astype(np.uint8)
        path = folder / f"class{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((24, 24)).save(path)
        paths.append(path)
    return paths


def embeddings(labels: np.ndarray = LABELS, *, noise: float = 0.6, seed: int = 0, dim: int = 6) -> np.ndarray:
    """Rows around the centre of their class."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(int(labels.max()) + 1, dim))
    return (centres[labels] + noise * random.normal(size=(len(labels), dim))).astype(np.float32)


def write_study_of(
    folder: Path,
    photos: Path,
    *,
    methods: Sequence[str] = METHODS,
    seeds: int = 2,
    classes: Sequence[str] | None = None,
    roles: np.ndarray | None = None,
    without: Sequence[str] = (),
    **content: Any,
) -> tuple[Study, list[PlannedRun]]:
    """A study's folder whose runs are finished. classes: names of the 40 classes. without: labels of missing runs."""
    paths = draw(photos)
    names = np.array(classes or [f"class {number}" for number in range(CLASSES)])[LABELS].tolist()
    study = parse_study({"name": folder.name, "data": str(photos), "methods": list(methods), "seeds": seeds, **content})
    runs = planned(list(methods), name=folder.name, data=str(photos), seeds=seeds, **content)
    for number, run in enumerate(runs):
        if run.label in without:
            continue
        trains = run.label != "untrained"
        level = 0.4 + 0.1 * methods.index(run.label) + 0.01 * run.spec.seed
        place = write_run(run, folder, class_means(level), steps=5 if trains else 0)
        embed(place, embeddings(noise=0.4 + 0.05 * number, seed=number), names, [str(path) for path in paths], roles)
        lines = [f'{{"step": {step}, "loss": {1 / (step + 1)}, "spread": 0.9}}\n' for step in range(0, 500, 2)]
        (place / "log.jsonl").write_text("".join(lines) if trains else "", encoding="utf-8")
    write_plan(folder, runs)
    described = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    (folder / "study.yaml").write_text(described, encoding="utf-8")
    return study, runs


def page_of(folder: Path) -> Data:
    """The page of a study's folder, without writing it."""
    study, runs = read_study(folder / "study.yaml"), read_plan(folder)
    return collect(Report(gathered(study, runs, folder), None, []), study, runs, folder)


def content_of(page: Path) -> dict[str, Any]:
    """The data inside a written page."""
    text = page.read_text(encoding="utf-8")
    start = text.index('id="page-data">') + len('id="page-data">')
    content: dict[str, Any] = json.loads(text[start : text.index("</script>", start)])
    return content


def array(packed: dict[str, Any]) -> np.ndarray:
    """An array of the page's data."""
    content = base64.b64decode(packed["base64"])
    return np.frombuffer(content, f"<{packed['dtype']}").reshape(packed["shape"])
