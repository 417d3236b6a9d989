"""One row of a leaderboard: scores, costs and deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.evaluation.statistics.intervals import Interval
from levelfield.studies.leaderboard.entries import Entry, mean_cost
from levelfield.studies.runs.folder.store import Result
from levelfield.wording import plural


@dataclass(frozen=True)
class Cell:
    """One score: mean over seeds, its 95 % interval over test classes and retraining (None: unknown), and the
    standard deviation over seeds (None: one run, or undefined)."""

    mean: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    representation: str = ""


@dataclass(frozen=True)
class Row:
    """One method (under one variation). Costs are per run, mean over seeds; None: unknown."""

    label: str
    trained: bool
    seeds: list[int]
    cells: dict[str, Cell]
    seconds: float
    deviations: list[str]
    warnings: list[str]
    variation: dict[str, Any]
    first_run: str
    tied_with_best: bool = False
    planning: float = 0.0  # seconds of training spent on planning batches
    peak_bytes: float | None = None  # of main memory during training
    images: float | None = None
    rows_through_trunk: float | None = None
    weights: float | None = None  # of the network
    operations: float | None = None  # of the network for one image, multiplications and additions
    backbone: str = ""
    cut: str = ""  # "frozen": the network did not train; "": several networks, joined
    test_set: str = ""  # its name in the leaderboard's signatures
    best_on_test: BestOnTest | None = None


COSTS = {
    "seconds": "seconds",
    "peak_bytes": "peak memory",
    "rows_through_trunk": "rows through the trunk",
    "operations": "operations per image",
}
OF_USE = ("operations",)  # costs of the network itself, whether it trains or not


def front(rows: Sequence[Row], cost: str, metric: str) -> list[str]:
    """Labels of the rows on the Pareto front, cheapest first.

    All rows must have the same test set. Rows that train nothing pay only for the use of the network. Rows of unknown
    cost are excluded.

    >>> from levelfield.studies.leaderboard.rows import Cell
    >>> row = lambda label, value, seconds: Row(label, seconds > 0, [0], {"nmi": Cell(value)}, seconds, [], [], {}, "")
    >>> front([row("a", 0.7, 9), row("b", 0.6, 4), row("c", 0.6, 5), row("start", 0.5, 0)], "seconds", "nmi")
    ['start', 'b', 'a']
    """
    costs = [getattr(row, cost) if row.trained or cost in OF_USE else 0.0 for row in rows]
    priced = [
        (paid, row.cells[metric].mean, row.label) for paid, row in zip(costs, rows, strict=True) if paid is not None
    ]
    labels: list[str] = []
    best, price = float("-inf"), -1.0
    for paid, value, label in sorted(priced, key=lambda row: (row[0], -row[1])):
        if value > best or (value == best and paid == price):
            labels.append(label)
            best, price = value, paid
    return labels


def networks_differ(rows: Sequence[Row]) -> bool:
    """Whether rows differ in what the use of their network costs."""
    return len({row.operations for row in rows}) > 1


@dataclass(frozen=True)
class BestOnTest:
    """Means over runs: the best test score during training, and the reported score.

    steps: the best step of each run. A method that refines at test time is monitored without refinement.
    """

    metric: str
    best: float
    honest: float
    gap: float
    steps: list[int]
    refined: bool = False

    @property
    def text(self) -> str:
        """The scores in one line.

        >>> BestOnTest("recall@1", 0.712, 0.705, 0.007, [300]).text
        'best test score during training: 0.712 at step 300 (not used for selection); reported: 0.705, gap 0.007'
        """
        where = f"step{'s' if len(set(self.steps)) > 1 else ''} {', '.join(map(str, dict.fromkeys(self.steps)))}"
        summary = f"best test score during training: {self.best:.3f} at {where} (not used for selection)"
        refined = " (monitored without the refinement at test time)" if self.refined else ""
        return f"{summary}; reported: {self.honest:.3f}, gap {self.gap:.3f}{refined}"


def row_of(label: str, test_set: str, entries: list[Entry], cells: dict[str, Cell]) -> Row:
    """The row of finished runs. test_set: its name."""
    results = [result for entry in entries for result in entry.results]
    warnings = ["the embedding collapsed"] if any(result.summary["collapsed"] for result in results) else []
    if idle := sum(result.summary["idle_batches"] for result in results):
        warnings.append(f"{plural(idle, 'batch', 'batches')} without an active tuple")
    trained = results[0].summary["step"] > 0
    joins = any(deviation["what"] == "members" for deviation in results[0].deviations)
    conditions = entries[0].run.spec.conditions
    counted = ("peak_bytes", "images", "rows_through_trunk", "weights", "operations")
    costs: dict[str, Any] = {name: mean_cost(entries, name) for name in counted}
    return Row(
        label,
        trained,
        [entry.seed for entry in entries],
        cells,
        mean_cost(entries, "seconds") or 0.0,
        list(dict.fromkeys(text for result in results for text in result.deviation_texts)),
        warnings,
        dict(entries[0].run.variation),
        str(results[0].folder),
        planning=mean_cost(entries, "planning") or 0.0,
        **costs,
        backbone=conditions.backbone,
        cut="" if joins else conditions.cut if trained else "frozen",
        test_set=test_set,
        best_on_test=_best_on_test(results),
    )


def cells_of(
    entries: Sequence[Entry], metrics: Sequence[str], intervals: Mapping[str, Interval | None], usual: dict[str, Any]
) -> dict[str, Cell]:
    """The scores of a row by metric. usual: the representation of most rows."""
    cells = {}
    for metric in metrics:
        values = np.array([entry.value(metric) for entry in entries])
        interval = intervals.get(metric)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        spread = float(values.std(ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
        differs = _in_words(entries[0].results[0].signatures[metric]["representation"], usual)
        cells[metric] = Cell(float(values.mean()), low, high, spread, differs)
    return cells


def _in_words(representation: dict[str, Any], usual: dict[str, Any]) -> str:
    """How a representation differs from the usual one.

    >>> _in_words({"dim": 2048, "bits": 1, "ensemble": 4}, {"dim": 64, "bits": 32, "ensemble": 1})
    '2048 bits, ensemble 4'
    """
    differs = {key: value for key, value in representation.items() if usual[key] != value}
    if differs.get("bits") == 1:
        rest = {key: value for key, value in differs.items() if key not in ("dim", "bits")}
        differs = {"bits": representation["dim"], **rest}
    words = {"dim": "{}-d", "bits": "{} bits"}
    return ", ".join(words.get(key, key + " {}").format(value) for key, value in differs.items())


def _best_on_test(results: Sequence[Result]) -> BestOnTest | None:
    """The best test scores of a row; None unless all its runs were monitored."""
    watched: list[list[dict[str, Any]]] = [result.summary.get("monitored") or [] for result in results]
    if not all(watched):
        return None
    metric = watched[0][0]["metric"]
    # the first of equal scores, where early stopping would have stopped
    best = [max(seen, key=lambda entry: (entry["test"], -entry["step"])) for seen in watched]
    highest = float(np.mean([entry["test"] for entry in best]))
    reported = float(np.mean([result.values[metric] for result in results]))
    shown = [result.signatures[metric]["representation"] for result in results]
    refined = any(each.get("refined", "none") != "none" for each in shown)
    return BestOnTest(metric, highest, reported, highest - reported, [entry["step"] for entry in best], refined)
