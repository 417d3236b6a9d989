"""Measured on a set: the plain product (the bound), this package, and PML's calculator with 1000 neighbours."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

from harness.samples import Sample, Shape
from levelfield.evaluation import evaluate

METRICS = ("recall@1", "recall@2", "recall@10", "recall@100", "recall@1000", "r_precision", "map@r", "map", "mrr")
SHORT = ("recall@1", "recall@10", "r_precision", "map@r")
HEIGHT, WIDTH = 512, 1024  # blocks that fit in the cache
BOUND_QUERIES, PML_QUERIES = 8_192, 6_144  # for larger sets: number of queries against the whole gallery, scaled up


def product(sample: Sample) -> None:
    """Compute all blocks of the similarity matrix into the same buffer."""
    part = slice(BOUND_QUERIES if share("product", sample) < 1 else None)
    query, gallery = torch.from_numpy(sample.query[part]), torch.from_numpy(sample.rows)
    buffer = torch.empty(HEIGHT * WIDTH)
    for rows in query.split(HEIGHT):
        for columns in gallery.split(WIDTH):
            torch.mm(rows, columns.T, out=buffer[: len(rows) * len(columns)].view(len(rows), len(columns)))


def ours(sample: Sample, metrics: tuple[str, ...] = METRICS) -> Any:
    """Every retrieval metric, with ties and full mAP."""
    return evaluate(
        sample.query, sample.labels, gallery=sample.gallery, gallery_labels=sample.gallery_labels, metrics=metrics
    )


def short(sample: Sample) -> Any:
    """Metrics that need only the first R ranks."""
    return ours(sample, SHORT)


def in_torch(sample: Sample) -> Any:
    """Like `ours` without numba: sorts rows of the similarity matrix in torch."""
    with patch("levelfield.evaluation.engine.best_search", lambda inputs: "dense"):
        return ours(sample)


def pml(sample: Sample) -> Any:
    """Precision@1, R-precision, MAP@R, mAP@1000 and MRR; no recall@K, no ties."""
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = (
        "precision_at_1",
        "r_precision",
        "mean_average_precision_at_r",
        "mean_average_precision",
        "mean_reciprocal_rank",
    )
    calculator = AccuracyCalculator(include=names, k=min(1000, len(sample.rows) - 1), device=torch.device("cpu"))
    labels = torch.from_numpy(sample.labels)
    theirs = labels if sample.gallery_labels is None else torch.from_numpy(sample.gallery_labels)
    part = slice(PML_QUERIES if share("PML", sample) < 1 else None)
    return calculator.get_accuracy(
        torch.from_numpy(sample.query[part]),
        labels[part],
        torch.from_numpy(sample.rows),
        theirs,
        ref_includes_query=sample.gallery is None,
    )


def share(who: str, sample: Sample) -> float:
    """Share of the queries that `who` is measured on: all, unless the set is large."""
    most = {"product": BOUND_QUERIES, "PML": PML_QUERIES}.get(who)
    return most / len(sample.query) if most is not None and len(sample.query) > 4 * most else 1.0


CALLS: dict[str, Callable[[Sample], Any]] = {
    "product": product,
    "ours": ours,
    "short": short,
    "torch": in_torch,
    "PML": pml,
}


def warm_up(who: str) -> None:
    CALLS[who](Shape(1_200, 60, 2.0).sample())


def pml_missing() -> str | None:
    """Reason why PML cannot run here, or None."""
    absent = [name for name in ("pytorch_metric_learning", "faiss") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(absent)} not installed" if absent else None
