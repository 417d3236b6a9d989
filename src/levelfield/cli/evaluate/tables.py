"""The results of `levelfield evaluate` as printed tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.measure import Measurement
from rich.table import Table

from levelfield.cli.console import console
from levelfield.cli.evaluate.beyond import sentences
from levelfield.evaluation import Evaluation, Rate, Rates, Representation, Signature, Threshold, Unknowns
from levelfield.evaluation.statistics import MIN_CLASSES
from levelfield.shipping.index.decision import plain, unknowns_text

_DECISIONS = {
    "cosine": "their cosine is {} or more",
    "dot": "their inner product is {} or more",
    "euclidean": "their distance is {} or less",
    "hamming": "at most {} bits differ",
}


@dataclass(frozen=True)
class Evaluated:
    """The evaluation of one representation, optionally with a threshold and its rates on the test classes."""

    result: Evaluation
    distance: str
    refined: str = ""
    decided: tuple[Threshold, Rates, Unknowns] | None = None
    chosen_on: str = "validation"
    models: int = 1
    bits: int | None = None
    """Per dimension, if the run declares it: binary codes are also stored in arrays of 32 bits."""

    @property
    def dim(self) -> int:
        return self._representation.dim

    @property
    def bytes(self) -> int:
        """Size of one embedding."""
        return math.ceil(self.dim * self._representation.bits / 8)

    @property
    def _representation(self) -> Representation:
        return self._declared(next(iter(self.result.signatures.values()))).representation

    def signature(self, name: str) -> str:
        return str(self._declared(self.result.signature(name)))

    def _declared(self, signature: Signature) -> Signature:
        seen = signature.representation.bits  # always 1 under hamming
        bits = seen if self.bits is None else min(self.bits, seen)
        return signature.declared(refined=self.refined or "none", ensemble=self.models, bits=bits)


def show(found: list[Evaluated], *, signatures: bool) -> None:
    """Print a table, notes, and the thresholds."""
    first = found[0].result
    if len(found) == 1:
        console.print(_one_table(first))
    else:
        wide = _table_of_rows(found)
        needed = Measurement.get(console, console.options.update(width=10_000), wide).maximum
        console.print(wide if needed <= console.width else _table_of_columns(found))
    _say(" ".join(about(found)))
    for one in found:
        if one.decided is not None:
            _show_threshold(one, several=len(found) > 1)
    if signatures:
        _say("")
        for one in found:
            for name in one.result:
                _say(one.signature(name))
            if one.decided is not None:
                _say(one.decided[0].signature)


def _one_table(result: Evaluation) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    if result.intervals:
        level = _per_cent(next(iter(result.intervals.values())).level)
        table.add_column(f"{level} over classes", justify="right")
        if result.sample is not None:
            table.add_column(f"{level}, all queries", justify="right")
    spread = result.spread
    for name in result:
        cells = [f"{result[name]:.4f}"]
        if name in result.intervals:
            cells.append(_span((result.intervals[name].low, result.intervals[name].high)))
            if result.sample is not None:
                found = result.sample.intervals[name]
                cells.append(_span((found.low, found.high)))
        elif name in spread and len(result.per_start[name]) > 1:
            cells[0] += f" ± {spread[name]:.4f}"
        table.add_row(name, *cells)
    return table


def _table_of_rows(found: list[Evaluated]) -> Table:
    """One row per representation."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    refined = ["refined"] if any(one.refined for one in found) else []
    for name in (*refined, "distance", "dim", "bytes", *found[0].result):
        table.add_column(name, justify="left" if name in ("refined", "distance") else "right")
    for one in found:
        about = [*([one.refined or "no"] if refined else []), one.distance, f"{one.dim}", f"{one.bytes}"]
        table.add_row(*about, *(cell(one.result, name) for name in one.result))
    return table


def _table_of_columns(found: list[Evaluated]) -> Table:
    """One column per representation: for many metrics on a narrow terminal."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric")
    for one in found:
        refined = f"refined:\n{one.refined}\n" if one.refined else ""
        table.add_column(f"{refined}{one.distance}\ndim {one.dim}\n{one.bytes} bytes", justify="right")
    for name in found[0].result:
        table.add_row(name, *(cell(one.result, name) for one in found))
    return table


def cell(result: Evaluation, name: str) -> str:
    """A score, and its interval below."""
    value = f"{result[name]:.4f}"
    if name not in result.intervals:
        return value
    low, high = result.intervals[name].low, result.intervals[name].high
    return f"{value}\n" + ("-" if math.isnan(low) else f"{low:.3f}-{high:.3f}")


def about(found: list[Evaluated]) -> list[str]:
    """Sentences about the queries and the intervals."""
    result = found[0].result
    classes = len(np.unique(result.query_codes))
    lines = [
        f"{result.n_queries:,} queries of {classes:,} classes"
        + (f", {found[0].distance}, {found[0].dim} dimensions." if len(found) == 1 else ".")
    ]
    lines += sentences(result)
    if ways := list(dict.fromkeys(one.refined for one in found if one.refined)):
        lines.append(
            f"DEVIATION, refined: {', '.join(ways)}. The embedding of an image then depends on the other test "
            "images, and costs a pass through the message-passing network."
        )
    if result.n_lone:
        one = result.n_lone == 1
        misses = "counts as 0" if one else "count as 0"
        treated = misses if result.counted.all() else "does not count" if one else "do not count"
        lines.append(f"{result.n_lone:,} of them {'has' if one else 'have'} no positive and {treated}.")
    if result.intervals:
        lines.append("Intervals: over other classes of the same kind.")
        if classes < MIN_CLASSES:
            lines.append(f"They need at least {MIN_CLASSES} classes.")
    if any(len(starts) > 1 for starts in result.per_start.values()):
        starts = len(next(iter(result.per_start.values())))
        lines.append(f"±: standard deviation over {starts} k-means starts.")
    return lines


def _show_threshold(one: Evaluated, *, several: bool) -> None:
    assert one.decided is not None
    threshold, rates, unknown = one.decided
    chosen, digits = threshold.validation, 0 if one.distance == "hamming" else 4
    about = f" ({one.distance}, dim {one.dim})" if several else ""
    interval = (
        ""
        if math.isnan(threshold.interval[0])
        else (f" ({_per_cent(threshold.level)}: {_span(threshold.interval, digits)})")
    )
    decision = _DECISIONS[one.distance].format(f"{threshold.value:.{digits}f}")
    _say(f"\nThreshold{about}: two images are of the same class if {decision}{interval}.")
    _say(
        f"Chosen for {_goal(threshold.rule)} on {chosen.classes:,} {one.chosen_on} classes "
        f"({chosen.images:,} images), tested on {rates.classes:,} test classes ({rates.images:,} images)."
    )
    if one.chosen_on == "training":
        _say(
            "DEVIATION: the network was trained on the classes that chose this threshold and separates them "
            "better than other classes. Trust only the rates on the test classes."
        )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("classes")
    for head in ("false matches\n(different, called the same)", "false non-matches\n(same, called different)"):
        table.add_column(head, justify="right")
    for name, found in ((one.chosen_on, chosen), ("test", rates)):
        table.add_row(name, _rate(found.false_match), _rate(found.false_non_match))
    console.print(table)
    _say(unknowns_text(plain(unknown), level=threshold.level))


def _goal(rule: str) -> str:
    name, _, limit = rule.partition("<=")
    if limit:
        return f"a rate of false matches of at most {100 * float(limit):g} %"
    return {"equal_error": "equal rates of both errors", "balanced": "the smallest mean of both errors"}[name]


def _rate(rate: Rate) -> str:
    interval = "" if math.isnan(rate.low) else f" ({100 * rate.low:.3g} to {100 * rate.high:.3g})"
    return f"{100 * rate.value:.3g} %{interval}\n{rate.errors:,} of {rate.pairs:,}"


def _span(bounds: tuple[float, float], digits: int = 4) -> str:
    return "-" if math.isnan(bounds[0]) else f"{bounds[0]:.{digits}f} to {bounds[1]:.{digits}f}"


def _per_cent(level: float) -> str:
    return f"{100 * level:g} %"


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
