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


def list_parts(
    kind: Annotated[Kind, typer.Argument(help="Kind of part.")],
    name: Annotated[str | None, typer.Argument(help="Show all facts about this part.")] = None,
) -> None:
    """List parts by kind (objectives, miners ...), or the studies."""
    from levelfield.reports.facts import all_facts, first_fact
    from levelfield.table import Column, Table
    from levelfield.wording import plural

    room: Any = importlib.import_module(_ROOMS[kind])
    names = room.names()
    if name is not None and name not in names and (within := _with(name, names)):
        count = plural(len(within), "name contains it", "names contain it")
        console.print(f"There is no {kind.value.removesuffix('s')} '{name}'. {count}:\n{'  '.join(within)}")
    elif name is not None:
        console.print(all_facts(name, room.describe(name)))
    elif kind is Kind.backbones:
        console.print(
            f"{len(names):,} backbones; weights that install with pip: {', '.join(room.installable())}. "
            "`levelfield list backbones NAME` shows one backbone and its stages.",
        )
        console.print("  ".join(names))
    else:
        rows = [[name, first_fact(room.describe, name)] for name in names]
        Table([Column("name", width=60), "what"], rows).show(console)
        if kind is Kind.studies:
            console.print("`levelfield list studies NAME` shows one study, and the data that it needs.")


def _with(part: str, names: Iterable[str]) -> list[str]:
    """The names that contain the words of `part`, in order.

    >>> _with("vit dino", ["vit_base_patch14_dinov2", "resnet18"])
    ['vit_base_patch14_dinov2']
    """
    words = [word for word in re.split(r"[\W_]+", part.lower()) if word]
    return [name for name in names if words and all(word in name.lower() for word in words)]
