"""The drop of each leaderboard row on corrupted test images, as a terminal table, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from levelfield.files.writing import write_json, write_text
from levelfield.registry import short_name
from levelfield.reports.leaderboard.widths import divided
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.runs.folder.store import read_result
from levelfield.studies.runs.spec import PlannedRun
from levelfield.studies.specification.study import Study

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
_NAME = 12  # columns of a method's name before it is wrapped
_MARGINS = 2


@dataclass(frozen=True)
class RobustRow:
    """One leaderboard row: its score on clean images and its drop under each corruption, means over its runs."""

    label: str
    clean: float
    drops: dict[str, float]
    mean_drop: float
    spread: float | None  # of the mean drop, over seeds
    runs: int


@dataclass(frozen=True)
class Robustness:
    """Rows in leaderboard order, and rows with runs that were not evaluated."""

    metric: str
    corruptions: list[str]
    rows: list[RobustRow]
    missing: list[str]


def robustness(study: Study, board: Leaderboard, runs: Sequence[PlannedRun], folder: Path) -> Robustness | None:
    """Stored drops in the leaderboard's first metric; None if the study has no corruptions."""
    if not study.corruptions:
        return None
    from levelfield.studies.runs.corruptions import recorded

    metric, rows, missing = board.metrics[0], [], []
    for row in board.rows:
        clean, kept, lost = [], [], 0
        for run in (run for run in runs if run.row == row.label):
            place = run.folder(folder)
            result = read_result(place)
            values = [recorded(place, name).get(metric) for name in study.corruptions]
            known = [value for value in values if value is not None]
            if result is None or metric not in result.values or len(known) < len(values):
                lost += 1
            else:
                clean.append(result.values[metric])
                kept.append(known)
        if lost:
            missing.append(f"{row.label}: {lost} of {lost + len(kept)} runs were not evaluated on corrupted images")
        if kept:
            rows.append(_row(row.label, study.corruptions, np.array(clean), np.array(kept)))
    return Robustness(metric, list(study.corruptions), rows, missing)


def _row(label: str, names: Sequence[str], clean: np.ndarray, kept: np.ndarray) -> RobustRow:
    """clean: (runs,); kept: (runs, corruptions)."""
    drops = clean[:, None] - kept
    each = drops.mean(axis=1)
    spread = float(each.std(ddof=1)) if len(each) > 1 else None
    means = dict(zip(names, drops.mean(axis=0).tolist(), strict=True))
    return RobustRow(label, float(clean.mean()), means, float(each.mean()), spread, len(each))


def write_robustness(found: Robustness | None, folder: Path) -> list[Path]:
    """Write robustness.json, .csv and .md; returns the paths."""
    if found is None:
        return []
    write_json(folder / "robustness.json", asdict(found))
    write_text(folder / "robustness.csv", robustness_csv(found))
    write_text(folder / "robustness.md", robustness_markdown(found))
    return [folder / f"robustness.{suffix}" for suffix in ("json", "csv", "md")]


def robustness_csv(found: Robustness) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(
        [
            "method",
            f"{found.metric} clean",
            *(f"drop {name}" for name in found.corruptions),
            "mean drop",
            "sd over seeds",
            "runs",
        ]
    )
    for row in found.rows:
        spread = "" if row.spread is None else f"{row.spread:.6f}"
        drops = (f"{value:.6f}" for value in row.drops.values())
        writer.writerow([row.label, f"{row.clean:.6f}", *drops, f"{row.mean_drop:.6f}", spread, row.runs])
    return table.getvalue()


def robustness_markdown(found: Robustness) -> str:
    head = ["method", f"{found.metric} clean", *(name.replace("_", " ") for name in found.corruptions), "mean"]
    lines = [f"# {_title(found)}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(field.replace("|", "\\|") for field in _fields(row)) + " |" for row in found.rows]
    return "\n".join([*lines, "", *_remarks(found, shown={})]) + "\n"


def show_robustness(found: Robustness | None, console: Console) -> None:
    """Print the table, if there is one."""
    if found is None:
        return
    heads = ["clean", *(_SHORT.get(name, short_name(name)) for name in found.corruptions), "mean"]
    columns = {head: [_fields(row)[k] for row in found.rows] for k, head in enumerate(heads, 1)}
    console.print()
    console.print(_title(found), style="italic", highlight=False)  # a table's title would wrap at the table's width
    widths = {head: max(map(len, [head, *texts])) for head, texts in columns.items()}
    for part in divided(widths, console.width - _MARGINS - _NAME):
        console.print(_table([row.label for row in found.rows], {head: columns[head] for head in part}))
    for line in _remarks(found, shown=_SHORT):
        console.print(line, soft_wrap=False)


def _table(labels: list[str], columns: dict[str, list[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("method", overflow="fold", min_width=_NAME)
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for label, *texts in zip(labels, *columns.values(), strict=True):
        table.add_row(label, *texts)
    return table


def _title(found: Robustness) -> str:
    return f"Corrupted test images: drop in {found.metric}, in percentage points"


def _fields(row: RobustRow) -> list[str]:
    """Score and drops in percentage points."""
    return [
        row.label,
        f"{100 * row.clean:.1f}",
        *(f"{100 * value:.1f}" for value in row.drops.values()),
        f"{100 * row.mean_drop:.1f}",
    ]


def _remarks(found: Robustness, *, shown: Mapping[str, str]) -> list[str]:
    """Notes below the table. shown: short names of corruptions, to be explained."""
    legend = [f"{shown[name]}: {name}" for name in found.corruptions if name in shown]
    lines = ["One draw per image, the same for every run." + (f" {'; '.join(legend)}." if legend else "")]
    spreads = [f"{row.label} {100 * row.spread:.1f}" for row in found.rows if row.spread is not None]
    lines += [f"Standard deviation of the mean drop over seeds: {', '.join(spreads)}."] if spreads else []
    return lines + [f"Missing: {text}." for text in found.missing]
