"""Measured ratios with their targets: display and storage."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import torch
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One line of the table: `value` is ours against the peer, a share of time, or an amount in `unit`.

    `target` is required; a good implementation reaches `good`. None: no target.

    >>> half = Figure("loop", "step", "a bare loop", value=0.5, target=1.15, good=0.85, at_most=True)
    >>> half.shown, half.verdict
    (('0.500x', '<= 1.150x', '0.850x'), 'yes, good')
    """

    part: str
    what: str
    peer: str
    value: float
    target: float | None
    at_most: bool
    good: float | None = None
    unit: Literal["x", "%", "ms", "MB", "n x n", "losses"] = "x"
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        return self._within(self.target)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return "-"
        return "NO" if not self.reached else "yes, good" if self.good is not None and self._within(self.good) else "yes"

    @property
    def shown(self) -> tuple[str, str, str]:
        """Value, target and good target as text."""
        if self.unit == "x":
            form = "{:.3f}x" if self.at_most else "{:.2f}x"
        else:
            form = {
                "%": "{:.1%}",
                "ms": "{:.1f} ms",
                "MB": "{:.0f} MB",
                "n x n": "{:.2f} n x n",
                "losses": "{:.0f} losses",
            }[self.unit]
        must = "" if self.target is None else ("<= " if self.at_most else ">= ") + form.format(self.target)
        return form.format(self.value), must, "" if self.good is None else form.format(self.good)

    def _within(self, bound: float | None) -> bool:
        return bound is None or (self.value <= bound if self.at_most else self.value >= bound)


def table(figures: Sequence[Figure], title: str) -> Table:
    """All figures with their targets."""
    shown = Table(title=title, title_justify="left", pad_edge=False)
    graded = any(figure.good is not None for figure in figures)
    for name in ("part", "what", "against", "measured", "target", *(["good"] if graded else []), "reached"):
        shown.add_column(name, justify="right" if name in ("measured", "target", "good") else "left", overflow="fold")
    for figure in figures:
        value, target, good = figure.shown
        shown.add_row(figure.part, figure.what, figure.peer, value, target, *([good] if graded else []), figure.verdict)
    return shown


def save(path: Path, figures: Sequence[Figure]) -> None:
    """Save as JSON. Entries that were not measured this time keep their earlier values."""
    measured = {(figure.part, figure.what, figure.peer) for figure in figures}
    before = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else []
    kept = [entry for entry in before if (entry["part"], entry["what"], entry["peer"]) not in measured]
    new = [{**asdict(figure), "reached": figure.reached, "machine": machine()} for figure in figures]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"figures": kept + new}, indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    """The machine and its load."""
    return {
        "cores": os.cpu_count(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }
