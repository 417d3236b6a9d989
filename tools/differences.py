"""Measure how other libraries' metrics (and a loss) differ from ours, for metrics.md: `python tools/differences.py`

Every line is recomputed: theirs by their own code where it can be installed, by the released line of code where it
cannot, or read from the golden cases, which hold the results of the released code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from levelfield import objectives
from levelfield.errors import BadInput
from levelfield.evaluation import evaluate, spectral_decay
from levelfield.evaluation.metrics.clustering import nmi, tabulate
from levelfield.randomness import numpy_stream

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "metrics"
Array = np.ndarray[Any, np.dtype[Any]]
_PLACE = re.compile(r"(<!-- differences -->\n).*?(<!-- end of differences -->)", re.DOTALL)


class Difference(NamedTuple):
    """One line of the table."""

    where: str
    what: str
    sample: str
    theirs: str
    ours: str


def differences() -> list[Difference]:
    return [case() for case in CASES]


def large_labels() -> Difference:
    sample = _golden("labels-large")
    theirs = _pml(sample["embeddings"], sample["labels"], "mean_average_precision_at_r")
    ours = evaluate(sample["embeddings"], sample["labels"], metrics=["map@r"])["map@r"]
    return Difference(
        "PML",
        "labels become float32: ids above 2^24 merge",
        "MAP@R of 4 classes, two of them 2^24 and 2^24 + 1",
        theirs,
        _figure(ours),
    )


def reciprocal_rank_alone() -> Difference:
    rows, labels = _two_classes()
    ours = evaluate(rows, labels, metrics=["mrr"])["mrr"]
    return Difference(
        "PML",
        "`mean_reciprocal_rank` fails if it is the only metric",
        "MRR of 12 rows",
        _pml(rows, labels, "mean_reciprocal_rank"),
        _figure(ours),
    )


def cut_list() -> Difference:
    rows, labels = _two_classes()
    ours = evaluate(rows, labels, metrics=["map"])["map"]
    return Difference(
        "PML",
        "mAP is silently truncated at `k`",
        "mAP of 12 rows, k = 3",
        _pml(rows, labels, "mean_average_precision", k=3),
        _figure(ours),
    )


def collapsed() -> Difference:
    rows, labels = np.ones((12, 4), np.float32), np.repeat([0, 1], 6)
    theirs = [_pml(rows, order, "mean_average_precision_at_r") for order in (labels, np.tile([0, 1], 6))]
    ours = evaluate(rows, labels, metrics=["map@r"])["map@r"]
    return Difference(
        "PML",
        "ties are broken by the order of the search results",
        "MAP@R of a collapsed network, 2 classes of 6, rows sorted by class or alternating",
        " or ".join(theirs),
        _figure(ours),
    )


def released_in_shop() -> Difference:
    """Proxy-Anchor, Intra-Batch: fewer than k non-positives strictly more similar than the best positive."""
    rows, labels = np.ones((30, 4), np.float32), np.repeat(np.arange(6), 5)
    similarity = rows @ rows.T
    same = labels[:, None] == labels[None]
    best = np.where(same & ~np.eye(30, dtype=bool), similarity, -np.inf).max(axis=1)
    hits = ((similarity > best[:, None]) & ~same).sum(axis=1) < 1
    return Difference(
        "Proxy-Anchor, Intra-Batch",
        "In-Shop recall counts only strictly nearer negatives",
        "R@1 of a collapsed network, 6 classes of 5",
        _figure(hits.mean()),
        _figure(evaluate(rows, labels, metrics=["recall@1"])["recall@1"]),
    )


def first_column() -> Difference:
    sample = _golden("duplicates-self-removal")
    ours = evaluate(sample["embeddings"], sample["labels"], metrics=["recall@1"], distance="euclidean")["recall@1"]
    return Difference(
        "Revisiting, Proxy-Anchor, Intra-Batch",
        "the first neighbour is dropped as the query itself",
        "R@1 with copies of rows in other classes",
        _figure(sample["recall_at_k"][0]),
        _figure(ours),
    )


def large_offset() -> Difference:
    from pytorch_metric_learning.distances import LpDistance

    sample = _golden("float32-large-offset")
    ours = evaluate(sample["embeddings"], sample["labels"], metrics=["map@r"], distance="euclidean")["map@r"]
    theirs = _pml(
        sample["embeddings"],
        sample["labels"],
        "mean_average_precision_at_r",
        distance=LpDistance(normalize_embeddings=False),
    )
    return Difference(
        "PML, `LpDistance`",
        "Euclidean distance in float32 loses precision under a common offset",
        "MAP@R of rows around 3,000",
        theirs,
        _figure(ours),
    )


def huge_norms() -> Difference:
    sample = _golden("float32-huge-norm-cosine")
    ours = evaluate(sample["embeddings"], sample["labels"], metrics=["map@r"])["map@r"]
    return Difference(
        "PML, `CosineSimilarity`",
        "norms overflow in float32",
        "MAP@R of rows of length 1e22",
        _pml(sample["embeddings"], sample["labels"], "mean_average_precision_at_r"),
        _figure(ours),
    )


def missing_numbers() -> Difference:
    rows, labels = _two_classes()
    rows[3] = np.nan
    try:
        ours = _figure(evaluate(rows, labels, metrics=["map@r"])["map@r"])
    except BadInput as error:
        ours = f"{type(error).__name__}: {error}"
    return Difference(
        "PML",
        "a NaN in the embeddings raises an unrelated error",
        "MAP@R of 12 rows, one of them NaN",
        _pml(rows, labels, "mean_average_precision_at_r"),
        ours,
    )


def released_map_at_c() -> Difference:
    rows, labels = np.repeat(np.eye(8, dtype=np.float32), 2, axis=0), np.repeat(np.arange(8), 2)
    found = evaluate(rows, labels, metrics=["map@c[released]", "map@r"])
    return Difference(
        "Revisiting",
        "mAP@C divides by the class size, counting the query",
        "a perfect network, classes of two",
        _figure(found["map@c[released]"]),
        _figure(found["map@r"]) + " (`map@r`)",
    )


def released_map_at_1000() -> Difference:
    sample = _golden("map-at-1000-small-set")
    name = "map@1000[released]"
    ours = evaluate(sample["embeddings"], sample["labels"], metrics=[name], distance="euclidean", lone="miss")[name]
    return Difference(
        "Revisiting",
        "mAP@1000 reads missing neighbours as the last row",
        f"{len(sample['labels'])} rows",
        _figure(sample["value"]),
        f"{_figure(ours)} (`{name}`)",
    )


def truncated_spectrum() -> Difference:
    sample = _golden("rho-release-cpu-path")
    return Difference(
        "Revisiting",
        "without a GPU, rho loses the smallest singular value",
        f"rho of {' x '.join(map(str, sample['embeddings'].shape))} rows",
        _figure(sample["value"]),
        _figure(spectral_decay(sample["embeddings"])),
    )


def two_nmi() -> Difference:
    labels = np.repeat(np.arange(8), 4)
    table = tabulate(labels, labels // 4)
    return Difference(
        "scikit-learn before 0.22, Unbiased Evaluation",
        "NMI normalised by the geometric mean of the entropies",
        "8 classes in 2 clusters, no class divided",
        f"{_figure(nmi(table, form='geometric'))} (`nmi[geometric]`)",
        _figure(nmi(table, form="arithmetic")),
    )


def kmeans_start() -> Difference:
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    draw, labels = numpy_stream(0, "differences", 100), np.repeat(np.arange(100), 10)
    rows = (draw.normal(size=(100, 32))[labels] + 0.6 * draw.normal(size=(1000, 32))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theirs = normalized_mutual_info_score(labels, KMeans(100, n_init=1, random_state=0).fit_predict(rows))
    ours = evaluate(rows, labels, metrics=["nmi"])["nmi"]
    return Difference(
        "scikit-learn",
        "k-means starts with k-means++; here at random rows, averaged over three starts",
        "NMI of 100 classes of 10",
        _figure(theirs),
        _figure(ours),
    )


def snr_regulariser() -> Difference:
    from pytorch_metric_learning.losses import SignalToNoiseRatioContrastiveLoss
    from pytorch_metric_learning.regularizers import ZeroMeanRegularizer

    rows, labels = (torch.from_numpy(part) for part in _two_classes())
    settings = {"embedding_regularizer": ZeroMeanRegularizer(), "embedding_reg_weight": 0.1}
    with_it, without = (SignalToNoiseRatioContrastiveLoss(**chosen)(5 * rows, labels) for chosen in (settings, {}))
    ours = objectives.create("snr", form="contrastive", lam=0.1, miner="all").terms(5 * rows, labels)["zero_mean"]
    return Difference(
        "PML",
        "the zero-mean term of SNR (`lam`) uses raw rows; here the compared unit rows",
        "that term, weight 0.1, of 12 rows of length 5",
        _figure(with_it - without),
        _figure(ours),
    )


CASES: tuple[Callable[[], Difference], ...] = (
    large_labels,
    reciprocal_rank_alone,
    cut_list,
    collapsed,
    large_offset,
    huge_norms,
    missing_numbers,
    first_column,
    released_in_shop,
    released_map_at_c,
    released_map_at_1000,
    truncated_spectrum,
    two_nmi,
    kmeans_start,
    snr_regulariser,
)


def _pml(rows: Array, labels: Array, metric: str, *, k: int | None = None, distance: Any = None) -> str:
    """What PML's calculator gives with its own search in torch, or the error it stops with."""
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    calculator = AccuracyCalculator(
        (metric,), k=k, device=torch.device("cpu"), kmeans_func=id, knn_func=CustomKNN(distance or CosineSimilarity())
    )
    try:
        return _figure(calculator.get_accuracy(rows, labels)[metric])
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _two_classes() -> tuple[Array, Array]:
    """Twelve points on a half circle, two classes that take turns now and then."""
    angles = np.linspace(0, np.pi, 12) ** 1.1
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32), np.array([0, 0, 1] * 4)


def _golden(name: str) -> dict[str, Array]:
    with np.load(GOLDEN / f"{name}.npz") as stored:
        return dict(stored)


def _figure(value: float) -> str:
    return f"{float(value):.2f}"


def table() -> str:
    lines = [("who", "what", "sample", "theirs", "ours"), ("---",) * 5, *differences()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PLACE.sub(lambda place: f"{place[1]}{table()}\n{place[2]}", text), encoding="utf-8")
