"""The page of drawn images and invented methods, for tests, benchmarks and pictures."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from drawn_images import drawing, names

from levelfield.reports.page.content import FORMAT, Data, score
from levelfield.reports.page.image_set import ImageSet
from levelfield.reports.page.neighbour_lists import EmbeddedRow
from levelfield.reports.page.one_test_set import data_of_test_set
from levelfield.reports.page.standings import metrics_of
from levelfield.table import Table

# label, noise of the embedding, seconds of training, group that cannot be told apart, deviations
METHODS: tuple[tuple[str, float, float | None, str, str], ...] = (
    ("contrastive", 0.25, 4.6, "a", ""),
    ("normalized_softmax", 0.26, 4.5, "ab", "ab"),
    ("triplet", 0.3, 4.5, "b", ""),
    ("LDA (closed form)", 0.32, None, "b", "c"),
    ("margin", 0.37, 4.3, "b", ""),
)
DEVIATIONS = {"a": "extra parameters 99,072", "b": "lr of proxies x0.846 (x1)", "c": "steps 0 (500)"}
DIM = 16


def made(images: int = 300, classes: int = 24, methods: int = 5) -> Data:
    """A whole page. Image 7 is lost."""
    stream, class_of, called = (
        np.random.default_rng([images, classes]),
        np.sort(np.arange(images) % classes),
        names(classes),
    )
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{called[code].replace(' ', '_')}_{k:05d}.png") for k, code in enumerate(class_of)]
        for number, (path, code) in enumerate(zip(paths, class_of, strict=True)):
            if number != 7:
                drawing(int(code), stream).save(path)
        searched = [EmbeddedRow(row, METHODS[row][0], vectors(row, class_of, classes)) for row in range(methods)]
        test = data_of_test_set("test classes", ImageSet(paths, called, class_of), searched)
    found = [dict(one, threshold=_threshold(one)) for one in test["methods"]]
    test = dict(
        test,
        groups=["studio", "street", "phone"],
        group_of=(np.arange(images) % 3).astype(np.uint16),
        methods=found,
        mistakes=_mistakes(class_of, classes, methods),
        why=explained(found, images),
    )
    return _page([_row(number, one) for number, one in enumerate(found)], test)


def vectors(row: int, class_of: np.ndarray, classes: int) -> np.ndarray:
    """Centres of classes plus noise, a part of which all methods share."""
    common = np.random.default_rng(len(class_of)).normal(size=(len(class_of), DIM))
    own = np.random.default_rng([len(class_of), row + 1]).normal(size=(len(class_of), DIM))
    centres = np.random.default_rng(1).normal(size=(classes, DIM))
    return (centres[class_of] + 2 * METHODS[row][1] * (0.8 * common + 0.6 * own)).astype(np.float32)


def _threshold(method: Data) -> dict[str, Any] | None:
    """Error rates of a threshold of 0.7, which one method lacks."""
    if method["row"] == 3:
        return None
    grid = np.linspace(-0.2, 1, 61)
    accept, reject = np.exp(-4 * (grid + 0.2)), 1 / (1 + np.exp(-(grid - 0.75) * (14 - method["row"])))
    value, similarity = float(grid[45]), method["similarity"].ravel() / 65535 * 2 - 1
    near = np.argsort(np.abs(similarity - value))[:24]
    pairs = [(int(k // method["k"]), int(method["neighbours"].ravel()[k]), float(similarity[k])) for k in near]
    return {
        "value": value,
        "source": "test classes (optimistic)" if method["row"] % 2 else "validation classes",
        "grid": grid.round(4).tolist(),
        "false_accept": accept.tolist(),
        "false_reject": reject.tolist(),
        "intervals": {
            "false_accept": [(rate * 0.8, min(1, rate * 1.2)) for rate in accept],
            "false_reject": [(rate * 0.9, min(1, rate * 1.1)) for rate in reject],
        },
        "above": [pair for pair in pairs if pair[2] >= value],
        "below": [pair for pair in pairs if pair[2] < value],
    }


def explained(methods: list[Data], images: int) -> dict[str, Any]:
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
            nearest = int(method["neighbours"][image, 0])
            one = {"method": number, "image": image, "neighbour": nearest, "cosine": 0.8, "exact": not number}
            maps.append({**one, "text": text, **dict(named)})
    return {"queries": queries, "maps": maps, "notes": []}


def enlarged(page: Data, times: int) -> Data:
    """The same images many times, each a little moved on the map; only the first ones are queries and have pictures."""
    test = page["tests"][0]
    known, stream = np.arange(test["count"], dtype=np.uint32), np.random.default_rng(0)

    def more(array: np.ndarray | None) -> np.ndarray:
        return np.concatenate([array] * times)

    def method(one: Data) -> Data:
        right = more(one["right"])
        right[test["count"] :] = 3
        places = more(one["map"]) + stream.normal(0, 900, (len(right), 2))
        moved = np.clip(places, 0, 65535).astype(np.uint16)
        counted = {"first_right": more(one["first_right"]), "found_by": more(one["found_by"])}
        return dict(one, queries=known, right=right, map=moved, **counted)

    large = dict(
        test,
        count=test["count"] * times,
        class_of=more(test["class_of"]),
        group_of=more(test["group_of"]),
        files=test["files"] * times,
        thumbnails=test["thumbnails"] and {**test["thumbnails"], "of": known},
        methods=[method(one) for one in test["methods"]],
    )
    return dict(page, tests=[large])


def _row(number: int, method: Data) -> Data:
    label, _, seconds, group, letters = METHODS[number]
    recall, trained = float((method["right"][method["right"] < 2] == 1).mean()), seconds is not None
    cells = {
        "recall@1": score(recall, recall - 0.03, min(1, recall + 0.03), 0.004),
        "map@r": score(recall * 0.76, recall * 0.74, recall * 0.78, None),
        "nmi": score(0.95 - number / 50 if number != 2 else 0.99, None, None, 0.002),
    }
    return {
        "label": label,
        "colour": number if trained else -1,
        "method": label,
        "trained": trained,
        "seeds": 3 if trained else 1,
        "dim": 128,
        "cells": cells,
        "seconds": seconds,
        "images_seen": 50_000 if trained else None,
        "peak_bytes": 3e8 + 2e7 * number if trained else None,
        "passes": 1 if trained else None,
        "group": group,
        "deviations": [{"key": key, "text": DEVIATIONS[key]} for key in letters],
        "test": 0,
        "run": f"{label}/seed-0",
        "embedded": number,
    }


def _mistakes(class_of: np.ndarray, classes: int, methods: int) -> dict[str, list[Any]]:
    last = len(class_of) - 1
    if last < 10:
        return {"labels": [], "duplicates": [], "leaks": []}
    labels = [
        {"image": i, "says": int(class_of[i] + 1) % classes, "votes": methods - 1, "of": methods}
        for i in (last // 5, last // 2)
    ]
    twins = [
        {"first": 0, "second": 1, "distance": 0, "text": "the same pixels"},
        {"first": last // 2, "second": last, "distance": 2, "text": "almost the same, in two classes"},
    ]
    leaks = [{"image": last // 3, "text": "equal to a training image"}]
    return {"labels": labels, "duplicates": twins, "leaks": leaks}


def _curves(rows: list[Data]) -> list[dict[str, Any]]:
    found, steps = [], np.arange(0, 500, 10)
    for number, row in enumerate(rows):
        for seed in range(row["seeds"] if row["trained"] else 0):
            wave = np.random.default_rng([number, seed]).normal(0, 0.01, len(steps))
            lines = {
                "loss": (0.3 + 0.1 * number) * np.exp(-steps / 120) + 0.1 + np.abs(wave),
                "spread": 0.4 + 0.2 * (1 - np.exp(-steps / 90)) + wave,
                "rho": 0.8 - 0.3 * steps / 500 + wave,
                "validation": 0.7 - 0.2 * np.exp(-steps / 80) - 0.02 * number + wave / 3,
            }
            points = {name: np.stack([steps, line], 1).tolist() for name, line in lines.items()}
            found.append({"row": number, "seed": seed, **points, "chosen_step": 440})
    return found


def _page(rows: list[Data], test: Data) -> Data:
    best, second, *_ = [*rows, rows[-1]]
    recall = best["cells"]["recall@1"]["mean"]
    return {
        "format": FORMAT,
        "live": None,
        "levelfield": "0.9.0",
        "study": "shapes",
        "about": f"{len(rows)} methods on {test['count']:,} drawn images of {len(test['classes'])} classes",
        "answer": [
            f"Use {best['label']}: {10 * recall:.0f} of 10 nearest images are of the right class "
            f"(recall@1 {recall:.3f}).",
            f"{second['label']} ties with it.",
        ],
        "cautions": [f"Only {len(test['classes'])} test classes: other classes may give another order."],
        "best": 0,
        "metrics": metrics_of(["recall@1", "map@r", "nmi"]),
        "rows": rows,
        "comparisons": [_compared(rows, a, b) for a in range(len(rows)) for b in range(a + 1, len(rows))],
        "comparison_note": f"Crossed test of recall@1 over {len(test['classes'])} test classes and 3 seeds",
        "tables": [
            Table(
                ["condition", "value"], [["dim", "128"], ["steps", "500"]], "Conditions", ["Equal for every method."]
            ),
            Table(["method", "deviation"], [["margin", "extra parameters 1"]], "Ledger"),
        ],
        "curves": _curves(rows),
        "missing": [{"row": "angular", "reason": "The loss was not a number at step 12."}],
        "tests": [test],
    }


def _compared(rows: list[Data], a: int, b: int) -> dict[str, Any]:
    apart = not set(rows[a]["group"]) & set(rows[b]["group"])
    by = rows[a]["cells"]["recall@1"]["mean"] - rows[b]["cells"]["recall@1"]["mean"]
    known = {"difference": by, "low": by - 0.01, "high": by + 0.01, "p": 0.012 if apart else 0.3}
    return {"first": a, "second": b, **known, "better": "first" if apart else None, "text": ""}
