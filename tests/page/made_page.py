"""The data of a page for tests, benchmarks and pictures: drawn images and invented methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from drawn_images import names, sheets
from made_embedded import embedded, explained

from levelfield.reports.page.content import Embedded, Page, Row, TestSet, score
from levelfield.reports.page.standings import metrics_of
from levelfield.table import Table

# label, noise of the embedding, seconds of training, group that cannot be told apart, deviations
METHODS: tuple[tuple[str, float, float | None, str, str], ...] = (
    ("contrastive", 0.25, 4.6, "a", ""),
    ("normalized_softmax", 0.26, 4.5, "ab", "ab"),
    ("triplet", 0.3, 4.5, "b", ""),
    ("LDA (closed form)", 0.32, None, "b", "c"),
    ("margin", 0.37, 4.3, "b", ""),
    ("proxy_anchor", 0.4, 5.2, "c", "a"),
    ("multi_similarity", 0.43, 3.7, "c", ""),
    ("untrained features", 0.5, None, "d", "c"),
)
DEVIATIONS = {"a": "extra parameters 99,072", "b": "lr of proxies x0.846 (x1)", "c": "steps 0 (500)"}


def made(
    images: int = 300, classes: int = 24, methods: int = 5, *, k: int = 20, pictures: bool = True, noise: float = 1
) -> Page:
    """A whole page. Above 6,000 images, neighbours of 500 queries only. noise: more makes every method worse."""
    stream = np.random.default_rng([images, classes])
    class_of = np.sort(np.arange(images) % classes).astype(np.uint32)
    queries = None if images <= 6000 else np.sort(stream.choice(images, 500, replace=False)).astype(np.uint32)
    found = [embedded(row, noise * METHODS[row][1], class_of, classes, queries, k) for row in range(methods)]
    called = names(classes)
    test = TestSet(
        name="test classes",
        count=images,
        classes=called,
        class_of=class_of,
        files=[f"{called[number].replace(' ', '_')}_{image:05d}.png" for image, number in enumerate(class_of)],
        groups=["studio", "street", "phone"],
        group_of=(np.arange(images) % 3).astype(np.uint16),
        lost=[7] if images > 7 else [],
        thumbnails=sheets(class_of, stream) if pictures else None,
        notes=[] if queries is None else [f"Neighbours of {len(queries)} queries only: there are {images:,} images."],
        methods=found,
        mistakes=_mistakes(class_of, classes, methods),
        why=explained(found, images),
    )
    return _page([_row(number, one) for number, one in enumerate(found)], test)


def enlarged(page: Page, times: int) -> Page:
    """The same images many times, each a little moved on the map; only the first ones are queries and have pictures."""
    test = page.tests[0]
    known, stream = np.arange(test.count, dtype=np.uint32), np.random.default_rng(0)

    def more(array: np.ndarray | None) -> np.ndarray:
        assert array is not None
        return np.concatenate([array] * times)

    def method(one: Embedded) -> Embedded:
        right = more(one.right)
        right[test.count :] = 3
        places = more(one.map) + stream.normal(0, 900, (len(right), 2))
        moved = np.clip(places, 0, 65535).astype(np.uint16)
        counted = {"first_right": more(one.first_right), "found_by": more(one.found_by)}
        return replace(one, queries=known, right=right, map=moved, **counted)

    large = replace(
        test,
        count=test.count * times,
        class_of=more(test.class_of),
        group_of=more(test.group_of),
        files=test.files * times,
        thumbnails=test.thumbnails and {**test.thumbnails, "of": known},
        methods=[method(one) for one in test.methods],
    )
    return replace(page, tests=[large])


def _row(number: int, method: Embedded) -> Row:
    label, _, seconds, group, letters = METHODS[number]
    recall, trained = float((method.right[method.right < 2] == 1).mean()), seconds is not None
    cells = {
        "recall@1": score(recall, recall - 0.03, min(1, recall + 0.03), 0.004),
        "map@r": score(recall * 0.76, recall * 0.74, recall * 0.78, None),
        "nmi": score(0.95 - number / 50 if number != 2 else 0.99, None, None, 0.002),
    }
    return Row(
        label=label,
        colour=number if trained else -1,
        method=label,
        trained=trained,
        seeds=3 if trained else 1,
        dim=128,
        cells=cells,
        seconds=seconds,
        images_seen=50_000 if trained else None,
        peak_bytes=3e8 + 2e7 * number if trained else None,
        passes=1 if trained else None,
        group=group,
        deviations=[{"key": key, "text": DEVIATIONS[key]} for key in letters],
        test=0,
        run=f"{label}/seed-0",
        embedded=number,
    )


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


def _curves(rows: list[Row]) -> list[dict[str, Any]]:
    found, steps = [], np.arange(0, 500, 10)
    for number, row in enumerate(rows):
        for seed in range(row.seeds if row.trained else 0):
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


def _page(rows: list[Row], test: TestSet) -> Page:
    best, second, *_ = [*rows, rows[-1]]
    return Page(
        levelfield="0.9.0",
        study="shapes",
        about=f"{len(rows)} methods on {test.count:,} drawn images of {len(test.classes)} classes",
        answer=[
            f"Use {best.label}: {10 * best.cells['recall@1']['mean']:.0f} of 10 nearest images are of the right class "
            f"(recall@1 {best.cells['recall@1']['mean']:.3f}).",
            f"{second.label} ties with it.",
        ],
        cautions=[f"Only {len(test.classes)} test classes: other classes may give another order."],
        best=0,
        metrics=metrics_of(["recall@1", "map@r", "nmi"]),
        rows=rows,
        comparisons=[_compared(rows, a, b) for a in range(len(rows)) for b in range(a + 1, len(rows))],
        comparison_note=f"Crossed test of recall@1 over {len(test.classes)} test classes and 3 seeds",
        tables=[
            Table(
                ["condition", "value"], [["dim", "128"], ["steps", "500"]], "Conditions", ["Equal for every method."]
            ),
            Table(["method", "deviation"], [["margin", "extra parameters 1"]], "Ledger"),
        ],
        curves=_curves(rows),
        missing=[{"row": "angular", "reason": "The loss was not a number at step 12."}],
        tests=[test],
    )


def _compared(rows: list[Row], a: int, b: int) -> dict[str, Any]:
    apart = not set(rows[a].group) & set(rows[b].group)
    by = rows[a].cells["recall@1"]["mean"] - rows[b].cells["recall@1"]["mean"]
    known = {"difference": by, "low": by - 0.01, "high": by + 0.01, "p": 0.012 if apart else 0.3}
    return {"first": a, "second": b, **known, "better": "first" if apart else None, "text": ""}
