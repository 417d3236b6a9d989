"""What `--dry-run` prints: the plan of a study and its cost, measured on this machine or only counted."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from levelfield.cli.console import console
from levelfield.studies.estimate import Estimate
from levelfield.studies.runs import PlannedRun
from levelfield.studies.specification import Study
from levelfield.studies.theory import count, total


def print_plan(study: Study, runs: list[PlannedRun], cost: Estimate, *, details: bool) -> None:
    """What would be done and what it would cost; figures that are not known are said to be not known."""
    if details:
        table = Table(title=f"{study.name}: {len(runs)} runs", title_justify="left", pad_edge=False)
        for name in ("method", "runs", "seconds each", "deviations (conditions)"):
            table.add_column(name, justify="right" if name in ("runs", "seconds each") else "left", overflow="fold")
        for row in cost.rows:
            table.add_row(row.label, str(row.runs), f"{row.seconds:.0f}", ", ".join(row.deviations) or "none")
        console.print(table)
    console.print(cost.text, highlight=False)


def print_counted(study: Study, reason: str) -> None:
    """The plan of a study whose data or weights are not here: what can be counted, and nothing else."""
    runs, rows = count(study)
    table = Table(title=f"{study.name}: {len(runs)} runs", title_justify="left", pad_edge=False, box=SIMPLE_HEAD)
    for name in ("method", "runs", "images", "trunk passes", "FLOPs", "bytes"):
        table.add_column(name, justify="left" if name == "method" else "right", overflow="fold")
    for row in [*rows, total(rows)]:
        table.add_row(
            row.label, str(row.runs), f"{row.images:,}", f"{row.rows:,}", f"{row.operations:.2e}", f"{row.bytes:.1e}"
        )
    console.print(table)
    console.print(
        "Images: seen in training. Trunk passes: images through the trunk, in training, for selection and monitoring "
        "(if nothing ends a run early), and for the test. FLOPs: multiplications "
        "and additions. By the official numbers of images. Hours: not known, since nothing was measured on this "
        f"device.\nCounted only, because: {reason}",
        highlight=False,
    )
