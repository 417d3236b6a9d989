"""Data of a page as the browser tests need it: drawn images and invented methods of known quality."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from drawn_images import COLUMNS, PER_SHEET, SIZE, names, sheets

METHODS = (
    ("contrastive", 0.24, 4.6), ("normalized_softmax", 0.27, 4.5), ("triplet", 0.28, 4.5), ("LDA (closed form)", 0.29, None),
    ("margin", 0.31, 4.3), ("proxy_anchor", 0.34, 5.2), ("multi_similarity", 0.36, 3.7), ("head at its start", 0.46, None),
    ("untrained features", 0.5, None), ("random projection", 0.58, None),
)  # fmt: skip
NAMES = {"float32": "f4", "uint8": "u1", "uint16": "u2", "uint32": "u4", "int32": "i4"}


def array(values: np.ndarray) -> dict[str, Any]:
    content = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return {"dtype": NAMES[values.dtype.name], "shape": list(values.shape), "base64": content}


def made(images: int = 300, classes: int = 24, methods: int = 5, *, k: int = 20, thumbnails: bool = True) -> dict[str, Any]:
    """A whole page. Above 5,000 images, neighbours of 500 queries only."""
    stream = np.random.default_rng([images, classes])
    class_of = np.sort(stream.integers(0, classes, images)).astype(np.uint32)
    rows = [_row(number, *METHODS[number]) for number in range(methods)]
    queries = None if images <= 6000 else np.sort(stream.choice(images, 500, replace=False)).astype(np.uint32)
    truth = np.random.default_rng(1).normal(size=(classes, 16)).astype(np.float32)
    places = _places(classes)
    common = stream.normal(size=(images, 16)).astype(np.float32)
    embedded = []
    for number, row in enumerate(rows):
        noise = METHODS[number][1]
        own = stream.normal(size=(images, 16)).astype(np.float32)
        vectors = truth[class_of] + noise * 2 * (0.8 * common + 0.6 * own)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        spread = places[class_of] + noise * 0.06 * (0.8 * common[:, :2] + 0.6 * own[:, :2])
        embedded.append(_embedded(number, vectors, spread, class_of, queries, k, classes))
        recall = _mean_recall(embedded[-1], class_of)
        half = 0.02 + 0.004 * number
        row["cells"]["recall@1"] = {"mean": recall, "low": recall - half, "high": recall + half, "sd": 0.004}
        row["cells"]["map@r"] = {"mean": recall * 0.76, "low": recall * 0.74, "high": recall * 0.78, "sd": None}
        row["cells"]["nmi"] = {"mean": 0.6 + recall / 3, "low": None, "high": None, "sd": 0.002}
    test = {
        "name": "test classes", "count": images, "classes": names(classes), "class_of": array(class_of),
        "files": [f"{names(classes)[c].replace(' ', '_')}_{i:05d}.png" for i, c in enumerate(class_of)],
        "groups": ["studio", "street", "phone"], "group_of": array((np.arange(images) % 3).astype(np.uint8)),
        "query": None, "gallery": None, "lost": [7] if images > 7 else [], "notes": [],
        "thumbnails": {"size": SIZE, "columns": COLUMNS, "per_sheet": PER_SHEET, "sheets": sheets(class_of, stream)}
        if thumbnails else None,
        "methods": embedded, "mistakes": _mistakes(class_of, classes, methods), "why": _why(embedded, min(6, images), methods),
    }  # fmt: skip
    if queries is not None:
        test["notes"].append(f"Neighbours of {len(queries)} chosen queries only: this test set has {images:,} images.")
    return _page(rows, test)


def _places(classes: int) -> np.ndarray:
    """A sunflower of class centres, so that the map fills its square."""
    number = np.random.default_rng(2).permutation(classes)
    radius, angle = 0.46 * np.sqrt((number + 0.5) / classes), number * math.pi * (3 - math.sqrt(5))
    return 0.5 + np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def _row(number: int, label: str, noise: float, seconds: float | None) -> dict[str, Any]:
    trained = seconds is not None
    groups = ["a", "ab", "b", "b", "b", "c", "c", "d", "d", "e"]
    letters = {1: ["a", "b"], 3: ["c"], 5: ["a", "d"], 8: ["c", "e"]}.get(number, [])
    texts = {"a": "extra parameters 99,072", "b": "lr of proxies x0.846 (x1)", "c": "steps 0 (500)", "d": "lr of proxies x1.91 (x1)", "e": "dim 3840 (128)"}
    return {
        "label": label, "colour": number if trained else -1, "method": label, "trained": trained, "seeds": 3 if trained else 1,
        "dim": 128 if number != 8 else 3840, "cells": {}, "seconds": seconds, "images_seen": 50_000 if trained else None,
        "peak_bytes": int(3e8 + number * 2e7) if trained else None, "passes": 1 if trained else None, "group": groups[number],
        "deviations": [{"key": key, "text": texts[key]} for key in letters], "test": 0, "run": f"{label}/seed-0", "embedded": number,
    }  # fmt: skip


def _embedded(row: int, vectors: np.ndarray, spread: np.ndarray, class_of: np.ndarray, queries: np.ndarray | None, k: int, classes: int) -> dict[str, Any]:
    asked = np.arange(len(vectors), dtype=np.uint32) if queries is None else queries
    k = min(k, len(vectors) - 1)
    neighbours, similarity = np.empty((len(asked), k), np.uint32), np.empty((len(asked), k), np.float32)
    first = np.zeros(len(vectors), np.uint32)
    for start in range(0, len(asked), 500):
        part = asked[start : start + 500]
        scores = vectors[part] @ vectors.T
        scores[np.arange(len(part)), part] = -2
        same = class_of[part][:, None] == class_of[None]
        same[np.arange(len(part)), part] = False
        best = np.where(same, scores, -2).max(1)
        first[part] = np.where(same.any(1), (scores > best[:, None]).sum(1) + 1, 0)
        order = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.take_along_axis(order, np.argsort(-np.take_along_axis(scores, order, 1), axis=1), 1)
        neighbours[start : start + 500], similarity[start : start + 500] = order, np.take_along_axis(scores, order, 1)
    right = np.full(len(vectors), 2, np.uint8)
    right[asked] = class_of[neighbours[:, 0]] == class_of[asked]
    recall = np.full(classes, np.nan, np.float32)
    for number in np.unique(class_of[asked]):
        recall[number] = right[asked][class_of[asked] == number].mean()
    wrong = right[asked] == 0
    pairs, counts = np.unique(np.stack([class_of[asked][wrong], class_of[neighbours[wrong, 0]]], 1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:200]
    return {
        "row": row, "queries": None if queries is None else array(queries), "k": k, "neighbours": array(neighbours),
        "similarity": array(np.round((similarity + 1) / 2 * 65535).astype(np.uint16)), "first_right": array(first),
        "right": array(right), "map": array(np.round(np.clip(spread, 0, 1) * 65535).astype(np.uint16)),
        "found_by": array(np.bincount(neighbours.ravel(), minlength=len(vectors)).astype(np.uint32)),
        "classes": {"recall": array(recall), "taken_for": [[*pairs[i].tolist(), int(counts[i])] for i in order]},
        "threshold": _threshold(neighbours, similarity, asked, row),
    }  # fmt: skip


def _mean_recall(method: dict[str, Any], class_of: np.ndarray) -> float:
    right = np.frombuffer(base64.b64decode(method["right"]["base64"]), np.uint8)
    return float((right[right < 2] == 1).mean())


def _threshold(neighbours: np.ndarray, similarity: np.ndarray, asked: np.ndarray, row: int) -> dict[str, Any] | None:
    if row == 3:
        return None
    grid = np.linspace(-0.2, 1, 61)
    accept, reject = 0.5 * np.exp(-4 * (grid + 0.2)), 1 / (1 + np.exp(-(grid - 0.75) * (14 - row)))
    value = float(grid[45])
    flat = np.argsort(np.abs(similarity.ravel() - value))[:24]
    pairs = [[int(asked[f // neighbours.shape[1]]), int(neighbours.ravel()[f]), float(similarity.ravel()[f])] for f in flat]
    return {
        "value": value, "source": "validation classes" if row % 2 == 0 else "test classes (optimistic)",
        "grid": grid.round(4).tolist(), "false_accept": accept.round(5).tolist(), "false_reject": reject.round(5).tolist(),
        "intervals": {"false_accept": [[a * 0.8, a * 1.2] for a in accept], "false_reject": [[r * 0.9, min(1, r * 1.1)] for r in reject]},
        "above": [pair for pair in pairs if pair[2] >= value], "below": [pair for pair in pairs if pair[2] < value],
    }  # fmt: skip


def _mistakes(class_of: np.ndarray, classes: int, methods: int) -> dict[str, Any]:
    last = len(class_of) - 1
    chosen = sorted({last // 5, last // 3, last // 2})
    labels = [{"image": i, "says": int(class_of[i] + 1) % classes, "votes": methods - 1, "of": methods} for i in chosen]
    twins = [{"first": 0, "second": 1, "distance": 0.0, "text": "the same bytes"}, {"first": last // 2, "second": last, "distance": 0.02, "text": "almost the same pixels, in two classes"}]
    return {"labels": labels, "duplicates": twins if last > 1 else []}


def _why(embedded: list[dict[str, Any]], count: int, methods: int) -> dict[str, Any]:
    stream, maps = np.random.default_rng(3), []
    for image in range(count):
        for method in range(min(2, methods)):
            rows, columns = np.mgrid[:7, :7]
            fields = [np.exp(-((rows - a) ** 2 + (columns - b) ** 2) / 5).astype(np.float32) for a, b in stream.uniform(1.5, 4.5, (4, 2))]
            keys = ("query_map", "neighbour_map", "activation", "neighbour_activation")
            first = np.frombuffer(base64.b64decode(embedded[method]["neighbours"]["base64"]), np.uint32)[image * embedded[method]["k"]]
            text = "The cosine is a sum over cells." if method == 0 else "An approximation: generalized-mean pooling is not a sum over cells."
            maps.append({"method": method, "image": image, "neighbour": int(first), "exact": method == 0, "text": text} | {key: array(field) for key, field in zip(keys, fields, strict=True)})
    return {"queries": list(range(count)), "maps": maps}


def _curves(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for number, row in enumerate(rows):
        if row["trained"]:
            for seed in range(3):
                steps = np.arange(0, 500, 10)
                wave = np.random.default_rng([number, seed]).normal(0, 0.02, len(steps))
                curve = {name: [[int(s), float(v)] for s, v in zip(steps, values, strict=True)] for name, values in (
                    ("loss", (0.3 + 0.1 * number) * np.exp(-steps / 120) + 0.1 + np.abs(wave)), ("spread", 0.4 + 0.2 * (1 - np.exp(-steps / 90)) + wave),
                    ("rho", 0.8 - 0.3 * steps / 500 + wave), ("validation", 0.7 - 0.2 * np.exp(-steps / 80) - 0.02 * number + wave / 3))}  # fmt: skip
                found.append({"row": number, "seed": seed, "chosen_step": 440} | curve)
    return found


def _page(rows: list[dict[str, Any]], test: dict[str, Any]) -> dict[str, Any]:
    recall = [row["cells"]["recall@1"]["mean"] for row in rows]
    comparisons = [
        {"first": a, "second": b, "difference": recall[a] - recall[b], "low": recall[a] - recall[b] - 0.01, "high": recall[a] - recall[b] + 0.01, "p": 0.012,
         "better": "first" if rows[a]["group"] != rows[b]["group"] else None, "text": f"{rows[a]['label']} is {recall[a] - recall[b]:+.3f} from {rows[b]['label']}"}
        for a in range(len(rows)) for b in range(a + 1, len(rows))
    ]  # fmt: skip
    return {
        "format": 1, "levelfield": "0.9.0", "study": "shapes", "about": f"{len(rows)} methods on {test['count']:,} drawn images of {len(test['classes'])} classes",
        "answer": [f"Use contrastive: {round(10 * recall[0])} of 10 nearest images are of the right class (recall@1 {recall[0]:.3f}).",
                   "normalized_softmax ties with it.", "Training pays: contrastive is 0.024 above LDA (closed form) (95 % +0.015 to +0.034), and costs 4.6 seconds a run."],
        "cautions": [f"Only {len(test['classes'])} test classes: with fewer than 100, other classes may give another order.", "LDA (closed form) has deviations: steps 0 (500)."],
        "best": 0, "metrics": [{"name": "recall@1", "higher": True, "text": "how often the nearest image is of the same class"},
                               {"name": "map@r", "higher": True, "text": "how many of the R nearest are of the class, early ones counted more"},
                               {"name": "nmi", "higher": True, "text": "how well clusters agree with the classes"}],
        "rows": rows, "comparisons": comparisons, "comparison_note": f"Crossed test of recall@1 over {len(test['classes'])} test classes and 3 seeds, Holm-corrected over {len(comparisons)} pairs",
        "tables": [{"title": "Conditions", "note": "Equal for every method.", "columns": ["condition", "value"], "rows": [["backbone", "tf_efficientnet_lite0"], ["dim", "128"], ["steps", "500"]]},
                   {"title": "Ledger", "note": "", "columns": ["method", "deviation", "value", "common value"], "rows": [["margin", "extra parameters", "1", "0"]]}],
        "curves": _curves(rows), "missing": [{"row": "angular", "reason": "The loss was not a number at step 12."}], "tests": [test], "live": None,
    }  # fmt: skip
