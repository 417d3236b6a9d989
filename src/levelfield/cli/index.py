"""`levelfield index`: embed a folder of photos once, to be searched many times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.cli.console import bar, note, say
from levelfield.cli.embed import readable
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import ForceOption, JsonOption, ModelArgument, SkipOption
from levelfield.cli.search import tell_missing
from levelfield.errors import BadInput, UnreadableImage, unknown
from levelfield.wording import plural

if TYPE_CHECKING:
    from levelfield.shipping import Index

LIBRARIES = ("usearch", "faiss")  # those of levelfield.shipping.index.approximate, known without numpy


PARTS = ("validation", "training")  # those of levelfield.studies.runs.finished, known without torch


@with_groups
def index(
    run: ModelArgument,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of photos; the sub-folder of a photo is its class.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the index.")] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option("--add", help="Folder with photos to add to the index --out (or RUN); repeatable."),
    ] = None,
    approximate: Annotated[
        str | None, typer.Option("--approximate", help="Search approximately with usearch or faiss; default: exactly.")
    ] = None,
    choose_on: Annotated[
        str, typer.Option("--choose-on", help="Classes that choose the threshold: validation or training.")
    ] = "validation",
    skip_unreadable: SkipOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
    *,
    model: ModelOptions,
) -> None:
    """Embed folders of photos once, for `levelfield search`."""
    if approximate is not None and approximate not in LIBRARIES:
        raise unknown("library for approximate search", approximate, LIBRARIES)
    if choose_on not in PARTS:
        raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
    from levelfield.shipping.index.folder import is_index

    known_index = run if is_index(run) else None
    if add:
        home = known_index or out
        if folders or home is None or (known_index and out):
            raise BadInput("To add photos: levelfield index INDEX --add FOLDER, or RUN --add FOLDER --out INDEX.")
        _add(home, None if known_index else run, add, skip_unreadable, as_json)
        return
    if known_index:
        raise BadInput(f"{run} is an index. Add photos to it with --add FOLDER, or give a run to make a new index.")
    if not folders or out is None:
        raise BadInput("Give folders of photos, and the folder of the index with --out.")
    _build(run, folders, out, approximate, choose_on, skip_unreadable, force, as_json, model.root)


def _build(
    run: Path,
    folders: list[Path],
    out: Path,
    approximate: str | None,
    choose_on: str,
    skip_unreadable: bool,
    force: bool,
    as_json: bool,
    root: Path | None,
) -> None:
    from levelfield.embedder.devices import requested
    from levelfield.shipping import build_index, load
    from levelfield.shipping.index import decision
    from levelfield.shipping.index.approximate import check_library
    from levelfield.shipping.index.index import check_out, photos_of
    from levelfield.studies.specification.locations import images_in

    check_out(out, force=force)
    if approximate is not None:
        check_library(approximate)
    skip = _unreadable(photos_of(folders), skip_unreadable)
    model = load(run, device=requested())
    with bar("choosing the threshold") as progress, images_in(root):
        chosen, remark = decision.choose(run, model, choose_on=choose_on, progress=progress)
    settings: dict[str, Any] = {"approximate": approximate, "skip": skip, "force": force}
    try:
        with bar("embedding") as progress:
            photo_index = build_index(run, folders, out, decision=chosen, progress=progress, **settings)
    except UnreadableImage as error:
        raise BadInput(f"{error} To skip such images: --skip-unreadable") from error
    if remark:
        note(remark)
    _print_index(photo_index, f"{plural(len(photo_index), 'image', 'images')} of {_classes(photo_index)}", as_json)


def _add(home: Path, run: Path | None, more: list[Path], skip_unreadable: bool, as_json: bool) -> None:
    from levelfield.shipping import add_to_index
    from levelfield.shipping.index.index import photos_of

    skip = _unreadable(photos_of(more), skip_unreadable)
    try:
        with bar("embedding") as progress:
            done = add_to_index(home, more, model=run, skip=skip, progress=progress)
    except UnreadableImage as error:
        raise BadInput(f"{error} To skip such images: --skip-unreadable") from error
    changed = f", {plural(done.changed, 'changed image', 'changed images')} embedded again" if done.changed else ""
    summary = (
        f"{plural(done.new, 'new image', 'new images')}{changed}, {done.known:,} already there. Now {len(done.index):,}"
    )
    _print_index(done.index, f"{summary} of {_classes(done.index)}", as_json)
    tell_missing(sum(not path.is_file() for path in done.index.paths), "the photos of the index")


def _unreadable(paths: list[Path], skip: bool) -> list[Path]:
    return sorted(set(paths) - set(readable(paths))) if skip else []


def _classes(photo_index: Index) -> str:
    return plural(len(set(photo_index.classes) - {""}), "class", "classes")


def _print_index(photo_index: Index, what: str, as_json: bool) -> None:
    """Print what was written, the threshold with its rate of matched unknowns, and what an approximate search loses."""
    facts = photo_index.content.facts
    if as_json:
        shown = ("images", "dim", "codes", "model", "threshold", "unknowns", "approximate")
        typer.echo(json.dumps({"folder": str(photo_index.folder), **{name: facts[name] for name in shown}}, indent=2))
        return
    from levelfield.shipping.index.decision import unknowns_text

    lines = [
        f"{photo_index.folder}: {what}, {photo_index.dim} {'bits' if facts['codes'] == 'binary' else 'dimensions'}."
    ]
    if (graph := facts["approximate"]) is not None:
        recalls = ", ".join(f"{name} {value:.4f}" for name, value in graph.items() if name.startswith("recall"))
        lines.append(f"Approximate search ({graph['library']}) against exact: {recalls or 'not measured'}; ")
        lines[-1] += f"{plural(graph['queries'], 'image', 'images')} of the index searched among the others."
    if (chosen := facts["threshold"]) is not None:
        lines.append(f"Same class: from a cosine of {chosen['value']:.3f}, chosen on {chosen['chosen_on']}.")
    if facts["unknowns"] is not None:
        lines.append(unknowns_text(facts["unknowns"]))
    for line in lines:
        say(line)
