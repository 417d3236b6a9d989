"""`levelfield list`: the names of all parts, and the facts about one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from levelfield.cli.console import console


class Kind(StrEnum):
    """Kinds of parts that can be listed."""

    objectives = "objectives"
    miners = "miners"
    batchings = "batchings"
    datasets = "datasets"
    metrics = "metrics"
    backbones = "backbones"
    methods = "methods"
    protocols = "protocols"
    corruptions = "corruptions"
    figures = "figures"
    studies = "studies"


_ROOMS = {
    Kind.objectives: "levelfield.objectives",
    Kind.miners: "levelfield.miners",
    Kind.batchings: "levelfield.batching",
    Kind.datasets: "levelfield.data",
    Kind.metrics: "levelfield.evaluation",
    Kind.backbones: "levelfield.embedder.trunk.backbones",
    Kind.protocols: "levelfield.data.protocols",
    Kind.methods: "levelfield.methods",
    Kind.corruptions: "levelfield.data.corruptions",
    Kind.figures: "levelfield.reports.figures",
    Kind.studies: "levelfield.library",
}


def list_names(
    kind: Annotated[Kind, typer.Argument(help="Kind of part.")],
    name: Annotated[str | None, typer.Argument(help="Show all facts about this part.")] = None,
) -> None:
    """List parts by kind (objectives, miners ...), or the studies."""
    from rich.table import Table
    from rich.text import Text

    from levelfield.reports.facts import all_facts, first_fact
    from levelfield.wording import plural

    room: Any = importlib.import_module(_ROOMS[kind])
    if name is not None and name not in room.names() and (within := _with(name, room.names())):
        names = plural(len(within), "name contains it", "names contain it")
        console.print(f"There is no {kind.value.removesuffix('s')} '{name}'. {names}:\n{'  '.join(within)}")
        return
    if name is not None:
        console.print(all_facts(name, room.describe(name)))
        return
    if kind is Kind.backbones:
        names = room.names()
        console.print(
            f"{len(names):,} backbones; weights that install with pip: {', '.join(room.installable())}. "
            "`levelfield list backbones NAME` shows one backbone and its stages.",
        )
        console.print("  ".join(names))
        return
    if kind is Kind.studies:
        _print_studies(room)
        return
    table = Table(pad_edge=False)
    table.add_column("name")
    table.add_column("what")
    for entry in room.names():
        table.add_row(entry, Text(first_fact(room.describe, entry)))
    console.print(table)


def _print_studies(room: Any) -> None:
    """Tables that fit 80 columns: studies on the embedded images, on other data, and the papers'."""
    from levelfield.table import Column, Table

    titles = (
        'On the embedded images (pip install "levelfield[demo]")',
        "On your copy of the data (`levelfield datasets`)",
        "The papers' tables and figures, on your copy of the data; with --mini on emoji",
    )
    rows: tuple[list[list[str]], ...] = ([], [], [])
    for name in room.names():
        facts, (paper, _, part) = room.describe(name), name.partition("/")
        if not part and facts.data == ("emoji",):
            rows[0].append([name, facts.what])
            continue
        where = re.sub(r"(?:table|(fig))(\d+)", lambda match: f"{'figure' if match[1] else 'table'} {match[2]}", part)
        what = facts.what.removeprefix(f"{paper} ").removeprefix(f"{where}, ") if part else facts.what
        rows[2 if part else 1].append([name, what, " ".join(facts.data)])
    whole = 60  # characters: names are not wrapped
    for number, (title, listed) in enumerate(zip(titles, rows, strict=True)):
        data = [Column("data", width=whole)] if number else []
        Table([Column("name", width=whole), "what", *data], listed, title).show(console)
    console.print("`levelfield list studies NAME` shows one study.")


def _with(part: str, names: Iterable[str]) -> list[str]:
    """The names that contain the words of `part`, in order.

    >>> _with("vit dino", ["vit_base_patch14_dinov2", "resnet18"])
    ['vit_base_patch14_dinov2']
    """
    words = [word for word in re.split(r"[\W_]+", part.lower()) if word]
    return [name for name in names if words and all(word in name.lower() for word in words)]
