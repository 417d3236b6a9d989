"""`levelfield list`: the names of all parts, and the facts about one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from levelfield.cli.console import console
from levelfield.errors import suggestion

ROOMS = {
    "objectives": "levelfield.objectives",
    "miners": "levelfield.miners",
    "batchings": "levelfield.batching",
    "datasets": "levelfield.data",
    "metrics": "levelfield.evaluation",
    "backbones": "levelfield.embedder.trunk.backbones",
    "methods": "levelfield.methods",
    "protocols": "levelfield.data.protocols",
    "corruptions": "levelfield.data.corruptions",
    "figures": "levelfield.reports.figures",
    "studies": "levelfield.library",
}


def _known_kind(kind: str) -> str:
    if kind not in ROOMS:
        raise typer.BadParameter(f"There is no kind '{kind}'.{suggestion(kind, ROOMS)}")
    return kind


def list_parts(
    kind: Annotated[str, typer.Argument(help=f"Kind of part: {', '.join(ROOMS)}.", callback=_known_kind)],
    name: Annotated[str | None, typer.Argument(help="Show all facts about this part.")] = None,
) -> None:
    """List parts by kind (objectives, miners ...), or the studies."""
    from levelfield.reports.facts import all_facts, first_fact
    from levelfield.table import Column, Table
    from levelfield.wording import plural

    room: Any = importlib.import_module(ROOMS[kind])
    names = room.names()
    if name is not None and name not in names and (within := _with(name, names)):
        count = plural(len(within), "name contains it", "names contain it")
        console.print(f"There is no {kind.removesuffix('s')} '{name}'. {count}:\n{'  '.join(within)}")
    elif name is not None:
        console.print(all_facts(name, room.describe(name)))
    elif kind == "backbones":
        console.print(
            f"{len(names):,} backbones; weights that install with pip: {', '.join(room.installable())}. "
            "`levelfield list backbones NAME` shows one backbone and its stages."
        )
        console.print("  ".join(names))
    else:
        rows = [[name, first_fact(room.describe, name)] for name in names]
        Table([Column("name", width=60), "what"], rows).show(console)
        if kind == "studies":
            console.print("`levelfield list studies NAME` shows one study, and the data that it needs.")


def _with(part: str, names: Iterable[str]) -> list[str]:
    """The names that contain the words of `part`, in order.

    >>> _with("vit dino", ["vit_base_patch14_dinov2", "resnet18"])
    ['vit_base_patch14_dinov2']
    """
    words = [word for word in re.split(r"[\W_]+", part.lower()) if word]
    return [name for name in names if words and all(word in name.lower() for word in words)]
