"""Compute the scores of a run from its stored embeddings, without training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.embedder.devices import searched_on
from levelfield.evaluation import evaluate
from levelfield.files.writing import write_whole
from levelfield.progress import Progress
from levelfield.studies.runs.folder.files import PER_QUERY, read_embeddings, read_training, write_finished
from levelfield.studies.runs.folder.items import Items
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.spec import recorded_identity


def score_run(
    folder: Path, labels: np.ndarray | None, metrics: tuple[str, ...], progress: Progress, device: str = "cpu"
) -> None:
    """Write per_query.npz and metrics.json, which finishes a run. Earlier metrics are kept.

    labels: the class of each test image; None without test images. device: where the rows are searched.
    """
    trained = read_training(folder)
    before = read_result(folder)
    metrics = tuple(dict.fromkeys([*(before.values if before else ()), *metrics]))
    values: dict[str, float] = {}
    signatures: dict[str, Any] = {}
    if labels is not None:
        stage = progress.stage("measuring", 1)
        items = Items.read(folder)
        rows = read_embeddings(folder, trained["checksums"])
        result = evaluate(**searched_on(device, items.arrays(rows, labels)), metrics=metrics)
        values = {name: float(result[name]) for name in result}
        shown = {
            "refined": trained["measured"].get("refined") or "none",
            "ensemble": trained["measured"].get("members", 1),
            "bits": trained["measured"].get("bits", 32),
        }
        signatures = {name: asdict(result.signature(name).declared(**shown)) for name in result}
        arrays: dict[str, Any] = {**result.per_query, "lone": result.lone, "labels": labels[items.queries]}
        arrays |= {} if items.roles is None else {"all_labels": labels}
        write_whole(folder / PER_QUERY, lambda file: np.savez(file, **arrays))
        stage.advance()
    scores = {"values": values, "signatures": signatures, "identity": recorded_identity(folder)}
    write_finished(folder, {**scores, **trained})
