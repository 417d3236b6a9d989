"""`levelfield ranks`: rank methods over several datasets, without training."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.console import console, say
from levelfield.cli.options import JsonOption, TrustOption
from levelfield.files.writing import write_text
from levelfield.trust import trust

if TYPE_CHECKING:
    from rich.table import Table

    from levelfield.evaluation.statistics.ranks import Ranking
    from levelfield.studies.leaderboard.across import Across

FEW = 10  # Demsar 2006: with fewer datasets the chi-square approximation is rough


def ranks(
    folders: Annotated[list[Path], typer.Argument(help="Study folders on different data, or with varied data.")],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Metric to rank by; default: the first metric of the first study.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for ranks.json and the diagram.")] = None,
    as_json: JsonOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Rank methods over several datasets (Friedman, Nemenyi)."""
    from levelfield import evaluation
    from levelfield.evaluation.statistics.ranks import rank
    from levelfield.registry import references_in
    from levelfield.studies.leaderboard.across import across

    trust(*references_in(metric))
    gathered = across(folders, evaluation.parse(metric).name if metric else None)
    for note in gathered.notes if not as_json else ():
        say(f"Note: {note}")
    found = rank(gathered.table)
    text = json.dumps(_as_data(gathered, found), indent=2, allow_nan=False)
    paths = _write(out, text, gathered, found) if out else []
    if as_json:
        typer.echo(text)
        return
    console.print(_table(gathered, found))
    for line in _sentences(found):
        say(line)
    if paths:
        say(f"\nWritten: {', '.join(map(str, paths))}")


def _write(out: Path, text: str, gathered: Across, found: Ranking) -> list[Path]:
    from levelfield.reports.figures.critical_difference import draw_critical_difference

    write_text(out / "ranks.json", text + "\n")
    title = f"mean ranks by {gathered.metric} on {len(found.datasets)} datasets"
    return [out / "ranks.json", draw_critical_difference(found, title, out / "critical-difference.png")]


def _as_data(gathered: Across, found: Ranking) -> dict[str, Any]:
    from levelfield.evaluation.statistics.ranks import told_apart

    return {**asdict(gathered), **asdict(found), "told_apart": dict(told_apart(found)) if found.differ else {}}


def _table(gathered: Across, found: Ranking) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"Mean ranks by {gathered.metric}, best first"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for name in ("method", "mean rank", *found.datasets):
        table.add_column(name, justify="left" if name == "method" else "right")
    for method, mean in found.mean_ranks.items():
        figures = [f"{gathered.table[dataset][method]:.3f}" for dataset in found.datasets]
        table.add_row(method, f"{mean:.2f}", *figures)
    return table


def _sentences(found: Ranking) -> list[str]:
    from levelfield.evaluation.statistics.ranks import ALPHA, told_apart

    lines = [f"Friedman test that all methods are equal: chi-square {found.chi_square:.2f}, p {found.p:.4f}."]
    if len(found.datasets) < FEW:
        lines.append(f"With {len(found.datasets)} datasets the test is approximate; {FEW} or more make it reliable.")
    if not found.differ:
        return [*lines, f"The methods do not differ significantly at {ALPHA:.0%}."]
    lines.append(
        f"Nemenyi: critical difference of mean ranks {found.critical_difference:.2f}, {ALPHA:.0%} over all pairs."
    )
    lines += [f"- {method}: better than {', '.join(below)}." for method, below in told_apart(found)]
    lines += [f"- no significant difference: {', '.join(group)}." for group in found.groups]
    return lines
