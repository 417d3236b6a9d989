"""Invented embeddings of a known quality, and what the page shows of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from levelfield.reports.page.content import Embedded

DIM = 16


def places(classes: int) -> np.ndarray:
    """A sunflower of class centres, so that the map fills its square."""
    number = np.random.default_rng(2).permutation(classes)
    radius, angle = 0.44 * np.sqrt((number + 0.5) / classes), number * math.pi * (3 - math.sqrt(5))
    return 0.5 + np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def embedded(
    row: int, noise: float, class_of: np.ndarray, classes: int, queries: np.ndarray | None, k: int
) -> Embedded:
    """A method whose embeddings are centres of classes plus noise, a part of which all methods share."""
    common = np.random.default_rng(len(class_of)).normal(size=(len(class_of), DIM))
    own = np.random.default_rng([len(class_of), row + 1]).normal(size=(len(class_of), DIM))
    mixed = noise * (0.8 * common + 0.6 * own)
    vectors = (np.random.default_rng(1).normal(size=(classes, DIM))[class_of] + 2 * mixed).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    spread = np.clip(places(classes)[class_of] + 0.6 / math.sqrt(classes) * mixed[:, :2], 0, 1)
    asked = np.arange(len(vectors), dtype=np.uint32) if queries is None else queries
    neighbours, similarity, first = _search(vectors, class_of, asked, min(k, len(vectors) - 1))
    right = np.full(len(vectors), 3, np.uint8)
    right[asked] = class_of[neighbours[:, 0]] == class_of[asked]
    return Embedded(
        row=row,
        queries=queries,
        k=neighbours.shape[1],
        neighbours=neighbours,
        similarity=np.round((similarity + 1) / 2 * 65535).astype(np.uint16),
        first_right=first,
        right=right,
        map=np.round(spread * 65535).astype(np.uint16),
        found_by=np.bincount(neighbours.ravel(), minlength=len(vectors)).astype(np.uint32),
        classes=_by_class(class_of, asked, right, neighbours, classes),
        threshold=_threshold(neighbours, similarity, asked, row),
    )


def _search(vectors: np.ndarray, class_of: np.ndarray, asked: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    neighbours, similarity = np.empty((len(asked), k), np.uint32), np.empty((len(asked), k), np.float32)
    first = np.zeros(len(vectors), np.uint32)
    for start in range(0, len(asked), 500):
        part, rows = asked[start : start + 500], slice(start, start + 500)
        scores = vectors[part] @ vectors.T
        scores[np.arange(len(part)), part] = -2
        same = class_of[part][:, None] == class_of[None]
        same[np.arange(len(part)), part] = False
        best = np.where(same, scores, -2).max(1)
        first[part] = np.where(same.any(1), (scores > best[:, None]).sum(1) + 1, 0)
        order = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.take_along_axis(order, np.argsort(-np.take_along_axis(scores, order, 1), axis=1), 1)
        neighbours[rows], similarity[rows] = order, np.take_along_axis(scores, order, 1)
    return neighbours, similarity, first


def _by_class(
    class_of: np.ndarray, asked: np.ndarray, right: np.ndarray, neighbours: np.ndarray, classes: int
) -> dict[str, Any]:
    recall = np.full(classes, np.nan, np.float32)
    for number in np.unique(class_of[asked]):
        recall[number] = right[asked][class_of[asked] == number].mean()
    wrong = right[asked] == 0
    pairs = np.stack([class_of[asked][wrong], class_of[neighbours[wrong, 0]]], 1)
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:200]
    return {"recall": recall, "taken_for": [(int(found[i, 0]), int(found[i, 1]), int(counts[i])) for i in order]}


def _threshold(neighbours: np.ndarray, similarity: np.ndarray, asked: np.ndarray, row: int) -> dict[str, Any] | None:
    if row == 3:
        return None
    grid = np.linspace(-0.2, 1, 61)
    accept, reject = np.exp(-4 * (grid + 0.2)), 1 / (1 + np.exp(-(grid - 0.75) * (14 - row)))
    value, flat = float(grid[45]), similarity.ravel()
    near = np.argsort(np.abs(flat - grid[45]))[:24]
    pairs = [(int(asked[f // neighbours.shape[1]]), int(neighbours.ravel()[f]), float(flat[f])) for f in near]
    intervals = {
        "false_accept": [(a * 0.8, min(1, a * 1.2)) for a in accept],
        "false_reject": [(r * 0.9, min(1, r * 1.1)) for r in reject],
    }
    return {
        "value": value,
        "source": "test classes (optimistic)" if row % 2 else "validation classes",
        "grid": grid.round(4).tolist(),
        "false_accept": accept.tolist(),
        "false_reject": reject.tolist(),
        "intervals": intervals,
        "above": [pair for pair in pairs if pair[2] >= value],
        "below": [pair for pair in pairs if pair[2] < value],
    }


def explained(methods: list[Embedded], images: int) -> dict[str, Any]:
    """Maps of a few queries by the first two methods."""
    stream, maps = np.random.default_rng(3), []
    rows, columns = np.mgrid[:7, :7]
    queries = list(range(0, images, max(1, images // 6)))[:6]
    for image in queries:
        for number, method in enumerate(methods[:2]):
            middles = stream.uniform(1.5, 4.5, (4, 2))
            fields = [np.exp(-((rows - a) ** 2 + (columns - b) ** 2) / 5).astype(np.float32) for a, b in middles]
            named = zip(("query_map", "neighbour_map", "activation", "neighbour_activation"), fields, strict=True)
            text = "approximate: the pooling is not a mean" if number else "exact: the cosine is a sum over cells"
            nearest = int(method.neighbours[0 if method.queries is not None else image, 0])
            one = {"method": number, "image": image, "neighbour": nearest, "cosine": 0.8, "exact": not number}
            maps.append({**one, "text": text, **dict(named)})
    return {"queries": queries, "maps": maps, "notes": []}
