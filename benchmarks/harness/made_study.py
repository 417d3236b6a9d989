"""A study's folder with made-up finished runs (random scores), for timing reports."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import yaml

from levelfield.evaluation.signature import Definition, Representation, Signature
from levelfield.studies.planning.plan import plan
from levelfield.studies.runs.folder.files import write_finished, write_training
from levelfield.studies.runs.folder.store import claim, write_plan
from levelfield.studies.specification.study import parse_study

CLASSES, EACH = 774, 6  # test classes and images of each, as in the demo
METRICS = ("recall@1", "map@r")


def make_study(folder: Path, *, rows: int, seeds: int) -> Path:
    """`rows` methods, each slightly better than the previous one, with `seeds` runs each."""
    methods = [{"label": f"row {k:03d}", "contrastive": {"neg_margin": 0.1 + k / 1000}} for k in range(rows)]
    content = {"name": folder.name, "data": "emoji", "methods": methods, "seeds": seeds, "metrics": list(METRICS)}
    study = parse_study(content)
    runs = plan(study, digest=lambda data: data.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False))
    write_plan(folder, runs)
    labels = np.repeat(np.arange(CLASSES), EACH)
    shared = {
        "self_excluded": "id",
        "ties": "expected",
        "lone": "exclude",
        "average": "query",
        "distance": "cosine",
        "queries": len(labels),
        "gallery": len(labels),
    }
    signatures = {
        metric: asdict(Signature(Definition(metric=metric, **shared), Representation(dim=128))) for metric in METRICS
    }
    random = np.random.default_rng(0)
    easy = random.normal(0.5, 0.1, size=CLASSES)
    summary = {"seconds": 2.5, "step": 500, "collapsed": False, "idle_batches": 0}
    for number, run in enumerate(runs):
        place = run.folder(folder)
        claim(place, run.spec, {})
        of_class = easy + number / len(runs) / 10 + random.normal(0, 0.02, size=CLASSES)
        queries = np.clip(np.repeat(of_class, EACH), 0, 1)
        arrays = {"recall@1": queries, "map@r": queries / 2, "lone": np.zeros(len(labels), bool), "labels": labels}
        np.savez(place / "per_query.npz", **arrays)
        trained = {"summary": summary, "measured": {"dim": 128}, "deviations": []}
        write_training(place, trained)
        values = {"recall@1": float(queries.mean()), "map@r": float(queries.mean() / 2)}
        made = {"values": values, "signatures": signatures}
        write_finished(place, {**made, **trained})
    return folder
