"""The drop of each leaderboard row on corrupted test images, as a terminal table, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from levelfield.files.writing import write_forms
from levelfield.registry import short_name
from levelfield.studies import Leaderboard, PlannedRun, Study
from levelfield.studies.runs.folder.store import read_result
from levelfield.table import Column, Table

# short names, so that nine columns and the methods' names fit 80 columns
_SHORT = {
    "cutout": "cut",
    "dropout": "drop",
    "gaussian_blur": "blur",
    "gaussian_noise": "noise",
    "perspective": "persp",
    "rotation": "rot",
    "salt_and_pepper": "salt",
    "uniform_noise": "shift",
}


@dataclass(frozen=True)
class Robustness:
    """Rows in leaderboard order, and rows with runs that were not evaluated.

    Each row has its score on clean images and its drop under each corruption, means over its runs; `spread` is that of
    the mean drop over seeds, None if there is one.
    """

    metric: str
    corruptions: list[str]
    rows: list[dict[str, Any]]
    missing: list[str]

    def write(self, folder: Path) -> list[Path]:
        """Write robustness.json, .csv and .md; returns the paths."""
        markdown = self.table().markdown() + "\n"
        return write_forms(folder, "robustness", asdict(self), csv=self.csv(), markdown=markdown)

    def show(self, console: Console) -> None:
        console.print()
        self.table(legend=True).show(console)

    def csv(self) -> str:
        names = [f"drop {name}" for name in self.corruptions]
        columns = ["method", f"{self.metric} clean", *names, "mean drop", "sd over seeds", "runs"]
        return Table(columns, [[row["label"], *_numbers(row), row["spread"], row["runs"]] for row in self.rows]).csv()

    def table(self, *, legend: bool = False) -> Table:
        """Score and drops in percentage points. legend: explain the short names of corruptions."""
        heads = [Column(f"{self.metric} clean", right=True, short="clean", group="clean")]
        heads += [
            Column(name.replace("_", " "), right=True, short=_SHORT.get(name, short_name(name)), group=name)
            for name in self.corruptions
        ]
        heads += [Column("mean", right=True, group="mean")]
        rows = [[row["label"], *(f"{100 * value:.1f}" for value in _numbers(row))] for row in self.rows]
        title = f"Corrupted test images: drop in {self.metric}, in percentage points"
        return Table([Column("method", width=12), *heads], rows, title, self._notes(legend=legend))

    def _notes(self, *, legend: bool) -> list[str]:
        names = [f"{_SHORT[name]}: {name}" for name in self.corruptions if name in _SHORT] if legend else []
        lines = ["One draw per image, the same for every run." + (f" {'; '.join(names)}." if names else "")]
        spreads = [f"{row['label']} {100 * row['spread']:.1f}" for row in self.rows if row["spread"] is not None]
        lines += [f"Standard deviation of the mean drop over seeds: {', '.join(spreads)}."] if spreads else []
        return lines + [f"Missing: {text}." for text in self.missing]


def robustness(study: Study, board: Leaderboard, runs: Sequence[PlannedRun], folder: Path) -> Robustness | None:
    """Stored drops in the leaderboard's first metric; None if the study has no corruptions."""
    if not study.corruptions:
        return None
    from levelfield.studies.runs.corrupted_scores import recorded

    metric, rows, missing = board.metrics[0], [], []
    for row in board.rows:
        clean, kept, lost = [], [], 0
        for run in (run for run in runs if run.row == row.label):
            run_folder = run.folder(folder)
            result = read_result(run_folder)
            values = [recorded(run_folder, name).get(metric) for name in study.corruptions]
            known = [value for value in values if value is not None]
            if result is None or metric not in result.values or len(known) < len(values):
                lost += 1
            else:
                clean.append(result.values[metric])
                kept.append(known)
        if lost:
            missing.append(f"{row.label}: {lost} of {lost + len(kept)} runs were not evaluated on corrupted images")
        if kept:
            drops = np.array(clean)[:, None] - np.array(kept)  # (runs, corruptions)
            means = dict(zip(study.corruptions, drops.mean(axis=0).tolist(), strict=True))
            each = drops.mean(axis=1)
            spread = float(each.std(ddof=1)) if len(each) > 1 else None
            scores = {"clean": float(np.mean(clean)), "drops": means, "mean_drop": float(each.mean())}
            rows.append({"label": row.label, **scores, "spread": spread, "runs": len(each)})
    return Robustness(metric, list(study.corruptions), rows, missing)


def _numbers(row: dict[str, Any]) -> list[float]:
    return [row["clean"], *row["drops"].values(), row["mean_drop"]]
