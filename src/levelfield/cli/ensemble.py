"""`levelfield ensemble`: join finished runs into one model, without training."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.console import bar, console, say
from levelfield.cli.options import ForceOption, JsonOption, RunsArgument, TrustOption
from levelfield.errors import BadInput
from levelfield.files.writing import write_text
from levelfield.trust import trust

if TYPE_CHECKING:
    from rich.table import Table

    from levelfield.studies.runs.joined.members import Member
    from levelfield.studies.runs.joined.separated import Figure, Separated


def ensemble(
    runs: RunsArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder of the ensemble, a normal run folder.")],
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Comma-separated metrics; default: those that all runs have.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Concatenate the embeddings of finished runs; evaluate them.

    Nothing is trained.
    """
    if len(runs) < 2:
        raise BadInput("An ensemble needs two runs or more.")

    from levelfield.evaluation import split
    from levelfield.evaluation.statistics import MIN_CLASSES
    from levelfield.registry import references_in
    from levelfield.studies.runs.folder.store import read_result
    from levelfield.studies.runs.joined.join import free, join
    from levelfield.studies.runs.joined.members import checked
    from levelfield.studies.runs.joined.separated import separate

    trust(*references_in(split(metrics or "")))
    members = checked(runs)
    if not members[0].items:
        raise BadInput(
            f"{members[0].folder} was trained on every class: no test classes are left to evaluate the ensemble on."
        )
    wanted = _metrics(metrics, members)
    free(out, members, force=force)
    with bar("joining") as progress:
        join(runs, out, wanted, progress=progress)
    together = read_result(out)
    assert together is not None
    with bar("evaluating members") as progress:
        found = separate(members, together, wanted, progress=progress)
    text = json.dumps(_as_data(members, found, together.summary["seconds"]), indent=2, allow_nan=False)
    write_text(out / "summary.json", text + "\n")
    if as_json:
        typer.echo(text)
        return
    for some in _fitting(members, found, list(wanted)):
        console.print(_table(members, found, some))
    dims = sum(member.dim for member in members)
    known = any(figure.low is not None for figure in found.joined.values())
    intervals = (
        "Intervals: 95 %, over test classes, for these networks."
        if known
        else (f"No intervals: they need at least {MIN_CLASSES} test classes and a metric with a value per query.")
    )
    say(f"{len(members[0].items):,} test images. {intervals}")
    refined = [f"{member.title} ({member.refined})" for member in members if member.refined]
    if refined:
        console.print(
            f"DEVIATION, refined: {', '.join(refined)}. The embedding of an image then depends on the other "
            "test images. The joined model does not refine.",
            highlight=False,
            soft_wrap=True,
        )
    say(f"Written: {out} (one model, {dims} dimensions)")


def _metrics(text: str | None, members: list[Member]) -> tuple[str, ...]:
    from levelfield.evaluation.metrics.registry import parse_all

    if text is not None:
        return tuple(metric.name for metric in parse_all(text, k=(1, 2, 4, 8)))
    shared = [name for name in members[0].result.values if all(name in each.result.values for each in members)]
    if not shared:
        raise BadInput("These runs have no metric in common: choose metrics, e.g. --metrics recall@1,map@r.")
    return tuple(shared)


def _fitting(members: list[Member], found: Separated, metrics: list[str]) -> list[list[str]]:
    """Divide the metrics into tables that fit the terminal."""
    from rich.measure import Measurement

    needed = Measurement.get(console, console.options.update(width=10_000), _table(members, found, metrics)).maximum
    if needed <= console.width or len(metrics) == 1:
        return [metrics]
    half = (len(metrics) + 1) // 2
    return [*_fitting(members, found, metrics[:half]), *_fitting(members, found, metrics[half:])]


def _table(members: list[Member], found: Separated, metrics: list[str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run")
    table.add_column("dim", justify="right")
    for name in metrics:
        table.add_column(name, justify="right")
    for member, figures in zip(members, found.members, strict=True):
        table.add_row(member.title, str(member.dim), *(_cell(figures[name]) for name in metrics))
    table.add_section()
    table.add_row("separated (mean)", "", *(_cell(found.separated[name]) for name in metrics))
    dims = str(sum(member.dim for member in members))
    table.add_row("concatenated", dims, *(_cell(found.joined[name]) for name in metrics))
    return table


def _cell(figure: Figure) -> str:
    return f"{figure.value:.4f}" + ("" if figure.low is None else f"\n{figure.low:.3f}-{figure.high:.3f}")


def _as_data(members: list[Member], found: Separated, seconds: float) -> dict[str, Any]:
    each = [
        {
            "run": member.title,
            "folder": str(member.folder),
            "dim": member.dim,
            "refined": member.refined or "none",
            "metrics": _plain(figures),
        }
        for member, figures in zip(members, found.members, strict=True)
    ]
    dims = sum(member.dim for member in members)
    return {
        "members": each,
        "separated": {"metrics": _plain(found.separated)},
        "concatenated": {"dim": dims, "seconds": seconds, "metrics": _plain(found.joined)},
    }


def _plain(figures: dict[str, Figure]) -> dict[str, dict[str, float | None]]:
    """Figures as plain data, with None for nan."""
    return {
        name: {key: value if value is not None and math.isfinite(value) else None for key, value in asdict(one).items()}
        for name, one in figures.items()
    }
