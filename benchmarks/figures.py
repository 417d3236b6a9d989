"""A measured ratio with its target, and how it is shown and kept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One line of the table: `value` is ours against the peer, or a share of time."""

    part: str
    what: str
    peer: str
    value: float
    target: float
    at_most: bool
    percent: bool = False
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target

    @property
    def shown(self) -> tuple[str, str]:
        """Value and target as text."""
        form = "{:.1%}" if self.percent else "{:.3f}x" if self.at_most else "{:.2f}x"
        return form.format(self.value), ("<= " if self.at_most else ">= ") + form.format(self.target)


def table(figures: Sequence[Figure]) -> Table:
    """All figures with their targets."""
    shown = Table(title="Speed of training", title_justify="left", pad_edge=False)
    for name in ("part", "what", "against", "measured", "target", "reached"):
        shown.add_column(name, justify="right" if name in ("measured", "target") else "left", overflow="fold")
    for figure in figures:
        value, target = figure.shown
        shown.add_row(figure.part, figure.what, figure.peer, value, target, "yes" if figure.reached else "NO")
    return shown


def save(path: Path, figures: Sequence[Figure]) -> None:
    """As JSON. Parts that were not measured this time keep their older figures."""
    measured = {figure.part for figure in figures}
    before = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else []
    kept = [entry for entry in before if entry["part"] not in measured]
    new = [{**asdict(figure), "reached": figure.reached, "machine": machine()} for figure in figures]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"figures": kept + new}, indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    """Where it was measured, and how busy it was."""
    return {
        "cores": os.cpu_count(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }
