"""`levelfield list`, `cache`, `report` and `init`: look at what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table
from rich.text import Text

from levelfield import batching, data, evaluation, library, methods, miners, objectives
from levelfield.cli.console import bar, console, looking
from levelfield.cli.facts import all_facts, first_fact
from levelfield.cli.options import FullOption, ImagesOption, TrustOption
from levelfield.data import corruptions
from levelfield.data.cache_contents import kept
from levelfield.embedder.trunk import backbones
from levelfield.embedder.trunk.cache import FeatureCache
from levelfield.errors import BadInput
from levelfield.files import write_text
from levelfield.registry import references_in
from levelfield.reports import figures as study_figures
from levelfield.reports.figures import check_figures, figures_of
from levelfield.reports.finish import finish
from levelfield.studies import read_study
from levelfield.studies.planning.own_photos import fit_to
from levelfield.studies.runs.folder import read_plan
from levelfield.studies.specification.locations import images_in
from levelfield.trust import trust
from levelfield.wording import plural


class Kind(StrEnum):
    """What can be listed."""

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


_ROOMS: dict[Kind, Any] = {
    Kind.objectives: objectives,
    Kind.miners: miners,
    Kind.batchings: batching,
    Kind.datasets: data,
    Kind.metrics: evaluation,
    Kind.backbones: backbones,
    Kind.protocols: data.protocols,
    Kind.methods: methods,
    Kind.corruptions: corruptions,
    Kind.figures: study_figures,
    Kind.studies: library,
}


def add_to(app: typer.Typer) -> None:
    app.command("list", epilog="Example: levelfield list objectives margin")(list_names)
    app.command("cache", epilog="Example: levelfield cache --clear")(cache)
    app.command("report", epilog="Example: levelfield report runs/demo")(report)
    app.command("init", epilog="Example: levelfield init --from demo my.yaml")(init)


def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="One of them, in full.")] = None,
) -> None:
    """List parts by kind (objectives, miners, batchings, metrics, ...), or the studies that ship with levelfield."""
    room = _ROOMS[kind]
    if name is not None and name not in room.names() and (within := _with(name, room.names())):
        names = plural(len(within), "name has it in it", "names have it in them")
        console.print(f"There is no {kind.value.removesuffix('s')} '{name}'. {names}:\n{'  '.join(within)}")
        return
    if name is not None:
        console.print(all_facts(name, room.describe(name)), highlight=False)
        return
    if kind is Kind.backbones:
        names = room.names()
        console.print(
            f"{len(names):,} backbones; embedded weights: tf_efficientnet_lite0. `levelfield list backbones NAME` "
            "shows one and its stages.",
            highlight=False,
        )
        console.print("  ".join(names), highlight=False)
        return
    table = Table(pad_edge=False)
    table.add_column("name")
    table.add_column("what")
    if kind is Kind.studies:
        table.add_column("needs")
    for entry in room.names():
        needs = [Text(library.describe(entry).needs)] if kind is Kind.studies else []
        table.add_row(entry, Text(first_fact(room.describe, entry)), *needs)
    console.print(table)


def _with(part: str, names: Iterable[str]) -> list[str]:
    """The names with a part in them, whatever is between its words.

    >>> _with("vit dino", ["vit_base_patch14_dinov2", "resnet18"])
    ['vit_base_patch14_dinov2']
    """
    words = [word for word in re.split(r"[\W_]+", part.lower()) if word]
    return [name for name in names if words and all(word in name.lower() for word in words)]


def cache(
    folder: Annotated[Path | None, typer.Option("--cache", help="Another place than the default.")] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete what is stored; it is computed again when needed.")
    ] = False,
) -> None:
    """Show (or clear) what was computed once and kept: features, images that were looked at, unpacked archives."""
    store = FeatureCache(folder)
    if not store.folder.is_dir():
        console.print(f"Nothing is stored: there is no folder {store.folder}.", soft_wrap=True)
        return
    others = kept(store.folder)
    if clear:
        size = store.clear() + sum(one.bytes for one in others if one.remove())
        console.print(f"Cleared {size / 1e6:.1f} MB in {store.folder}.", highlight=False)
        return
    size = store.size() + sum(one.bytes for one in others)
    table = Table(title=f"{store.folder}: {size / 1e6:.1f} MB", title_justify="left", pad_edge=False)
    for column in ("what", "MB", "last used"):
        table.add_column(column, justify="right" if column == "MB" else "left", overflow="fold")
    features = [(entry.description or entry.key, entry.bytes, entry.last_use) for entry in store.entries()]
    for what, size, last in (*features, *((one.what, one.bytes, one.last_use) for one in others)):
        table.add_row(what, f"{size / 1e6:.1f}", datetime.fromtimestamp(last).strftime("%Y-%m-%d %H:%M"))
    console.print(table)


def report(
    folder: Annotated[Path, typer.Argument(help="A study's folder, such as runs/demo.")],
    out: Annotated[Path | None, typer.Option("--out", help="Where the tables go; default: the study's folder.")] = None,
    metrics: Annotated[str | None, typer.Option("--metrics", help="Which metrics, with commas between.")] = None,
    figures: Annotated[
        list[str] | None, typer.Option("--figure", help="A figure, may come again (levelfield list figures).")
    ] = None,
    leaks: Annotated[
        bool, typer.Option("--leaks", help="Look for images on both sides of the split that look alike; draw them.")
    ] = False,
    root: ImagesOption = None,
    full: FullOption = False,
    trust_files: TrustOption = None,
) -> None:
    """Print the leaderboard of existing runs, write it as CSV, JSON and Markdown, draw figures. Trains nothing.

    Without --figure those are drawn that the study names. --leaks needs the images, all else does not.
    """
    trust(*references_in([evaluation.split(metrics or ""), figures or []]))
    runs = read_plan(folder)
    study = read_study(folder / "study.yaml")
    chosen = tuple(evaluation.split(metrics)) if metrics else study.metrics
    for name in chosen:
        evaluation.parse(name)
    wanted = check_figures(figures or figures_of(study))
    with bar("looking for leaks") as progress, images_in(root):
        made = finish(
            study,
            runs,
            folder,
            out=out,
            metrics=chosen if metrics else (),
            figures=wanted,
            near_leaks=leaks,
            progress=progress,
        )
    made.show(console, full=full)
    made.refuse_if_not_drawn()


def init(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Your photos (one sub-folder per class, or a CSV), or a benchmark; with --from, the file to write."
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Copy a study that ships with levelfield, such as demo, to edit it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The study file to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read.")
    ] = False,
    root: Annotated[Path | None, typer.Option("--root", help="Root folder of the benchmark.")] = None,
) -> None:
    """Write a study file that you can edit: for your photos, or a copy of a study that ships with levelfield."""
    changes: list[str] = []
    if source is not None:
        text = library.copy(source)
        target = out or folder or Path(f"{source.replace('/', '-')}.yaml")
    elif folder is None:
        raise BadInput("Name your photos (levelfield init FOLDER), or a study to copy (levelfield init --from demo).")
    else:
        trust(*references_in(str(folder)))
        with looking() as progress:
            content, changes = fit_to(folder, root=root, skip_unreadable=skip_unreadable, progress=progress)
        remarks = "".join(f"# {line}\n" for line in changes)
        text = remarks + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        target = out or Path(f"{content['name']}.yaml")
    if target.exists() and not force:
        raise BadInput(f"{target} exists already: choose another name, or replace it with --force.")
    write_text(target, text)
    for change in changes:
        console.print(f"- {change}", highlight=False)
    command = f"levelfield compare {shlex.quote(str(target))}"
    console.print(f"Written: {target}. Look at it, then: {command}", highlight=False, soft_wrap=True)
