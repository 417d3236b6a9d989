"""`levelfield evaluate RUN --corrupt`: the drop on corrupted test images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from levelfield.cli.console import bar, console
from levelfield.cli.evaluate.tables import Evaluated
from levelfield.data import corruptions
from levelfield.errors import BadInput
from levelfield.files.writing import write_text
from levelfield.registry import references_in
from levelfield.studies.runs.corruptions import Drops, evaluate_corrupted
from levelfield.studies.runs.finished import how_many_bits, how_many_models, how_refined
from levelfield.table import Table, numbers
from levelfield.trust import trust

METRICS = ("recall@1", "map@r")  # default


def measure(
    run: Path | None,
    wanted: str,
    settings: dict[str, Any],
    distances: Sequence[str],
    dims: list[int],
    *,
    out: Path | None,
    as_json: bool,
    signatures: bool,
    unfit: dict[str, bool],
) -> None:
    """Print (or write) the scores and drops of a run under corruptions. unfit: given options that do not apply."""
    if run is None:
        raise BadInput("--corrupt needs a run folder: its model must embed the corrupted images.")
    if len(distances) > 1 or len(dims) > 1:
        raise BadInput("--corrupt takes one --distance and one --dim at a time.")
    if other := [flag for flag, given in unfit.items() if given]:
        raise BadInput(f"--corrupt and {other[0]} cannot be combined: run two commands.")
    names, metrics = corruptions.chosen(wanted), settings["metrics"] or METRICS
    trust(*references_in(names))
    plain = {key: value for key, value in settings.items() if key not in ("metrics", "ci")}
    with bar("embedding") as progress:
        drops, results = evaluate_corrupted(
            run,
            names,
            metrics=metrics,
            progress=progress,
            ci=None,
            dim=dims[0] if dims else None,
            distance=distances[0],
            **plain,
        )
    clean = Evaluated(
        results["clean"], distances[0], how_refined(run), models=how_many_models(run), bits=how_many_bits(run)
    )
    made = {metric: clean.signature(metric) for metric in clean.result}
    text = json.dumps(as_data(drops) | {"signatures": made}, indent=2, allow_nan=False)
    if out is not None:
        write_text(out, text + "\n")
    if as_json:
        typer.echo(text)
        return
    _table(drops).show(console)
    console.print("Drop: clean minus corrupted. One draw per image, the same for every run.")
    for signature in made.values() if signatures else ():
        console.print(signature, soft_wrap=True)


def as_data(drops: Drops) -> dict[str, Any]:
    """The scores as plain data."""
    return {
        "clean": drops.clean,
        "corrupted": {
            name: {metric: {"value": value, "drop": drops.drop(name, metric)} for metric, value in values.items()}
            for name, values in drops.corrupted.items()
        },
        "mean_drop": {metric: drops.mean_drop(metric) for metric in drops.clean},
    }


def _table(drops: Drops) -> Table:
    """One line per corruption; metrics that do not fit follow in another table, each with its drop."""
    names = ["clean", *drops.corrupted, "mean drop"]
    cells = [_column(drops, metric) for metric in drops.clean]
    rows = [[name, *(text for column in cells for text in column[k])] for k, name in enumerate(names)]
    columns = [column for metric in drops.clean for column in numbers(metric, "drop", group=metric)]
    return Table(["test images", *columns], rows, ruled=[len(drops.corrupted)])


def _column(drops: Drops, metric: str) -> list[tuple[str, str]]:
    """Score and drop on clean images, under each corruption, and on average."""
    under = [(f"{values[metric]:.4f}", f"{drops.drop(name, metric):+.4f}") for name, values in drops.corrupted.items()]
    return [(f"{drops.clean[metric]:.4f}", ""), *under, ("", f"{drops.mean_drop(metric):+.4f}")]
