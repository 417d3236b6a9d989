"""`levelfield index`: embed a folder of photos once, to search it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levelfield import shipping
from levelfield.cli import options
from levelfield.cli.console import print_json, say
from levelfield.cli.embed import embedding
from levelfield.cli.option_groups import ModelOptions, with_groups
from levelfield.cli.options import option
from levelfield.cli.search import tell_missing
from levelfield.errors import BadInput, unknown
from levelfield.wording import plural

LIBRARIES = ("usearch", "faiss")  # those of levelfield.shipping.index.approximate, known without numpy
PARTS = ("validation", "training")  # those of levelfield.studies.runs.finished, known without torch


@with_groups
def index(
    run: options.ModelArgument,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of photos; the sub-folder of a photo is its class.")
    ] = None,
    out: Annotated[Path | None, option("--out", "Folder of the index.")] = None,
    add: Annotated[
        list[Path] | None, option("--add", "Folder with photos to add to the index --out (or RUN); repeatable.")
    ] = None,
    approximate: Annotated[
        str | None, option("--approximate", "Search approximately with usearch or faiss; default: exactly.")
    ] = None,
    choose_on: Annotated[
        str, option("--choose-on", "Classes that choose the threshold: validation or training.")
    ] = "validation",
    skip_unreadable: options.SkipOption = False,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    *,
    model: ModelOptions,
) -> None:
    """Embed folders of photos once, for `levelfield search`."""
    if approximate is not None and approximate not in LIBRARIES:
        raise unknown("library for approximate search", approximate, LIBRARIES)
    if choose_on not in PARTS:
        raise BadInput(f"--choose-on {choose_on}: must be {' or '.join(PARTS)}.")
    from levelfield.shipping.index.folder import is_index

    index_folder = run if is_index(run) else out
    if add:
        if folders or index_folder is None or (is_index(run) and out):
            raise BadInput("To add photos: levelfield index INDEX --add FOLDER, or RUN --add FOLDER --out INDEX.")
        moved_to = None if is_index(run) else run
        with embedding() as progress:
            added = shipping.add_to_index(
                index_folder, add, model=moved_to, skip_unreadable=skip_unreadable, progress=progress
            )
        again = f", {plural(added.changed, 'changed image', 'changed images')} embedded again" if added.changed else ""
        what = f"{plural(added.new, 'new image', 'new images')}{again}, {added.known:,} already there. "
        _print_index(added.index, f"{what}Now {len(added.index):,}", as_json)
        tell_missing(sum(not path.is_file() for path in added.index.paths), "the photos of the index")
        return
    if is_index(run):
        raise BadInput(f"{run} is an index. Add photos to it with --add FOLDER, or give a run to make a new index.")
    if not folders or out is None:
        raise BadInput("Give folders of photos, and the folder of the index with --out.")
    settings: dict[str, Any] = {"choose_on": choose_on, "approximate": approximate, "force": force}
    with embedding() as progress:
        index = shipping.build_index(run, folders, out, skip_unreadable=skip_unreadable, progress=progress, **settings)
    _print_index(index, plural(len(index), "image", "images"), as_json)


def _print_index(index: shipping.Index, what: str, as_json: bool) -> None:
    """Print what was written, the threshold with its rate of matched unknowns, and what an approximate search loses."""
    facts = index.content.facts
    if as_json:
        shown = ("images", "dim", "codes", "model", "threshold", "unknowns", "approximate")
        print_json({"folder": str(index.folder), **{name: facts[name] for name in shown}})
        return
    from levelfield.shipping.index.decision import unknowns_text

    classes = plural(len(set(index.classes) - {""}), "class", "classes")
    say(f"{index.folder}: {what} of {classes}, {index.dim} {'bits' if facts['codes'] == 'binary' else 'dimensions'}.")
    if (graph := facts["approximate"]) is not None:
        recalls = ", ".join(f"{name} {value:.4f}" for name, value in graph.items() if name.startswith("recall"))
        queries = f"{plural(graph['queries'], 'image', 'images')} of the index searched among the others"
        say(f"Approximate search ({graph['library']}) against exact: {recalls or 'not measured'}; {queries}.")
    if (chosen := facts["threshold"]) is not None:
        say(f"Same class: from a cosine of {chosen['value']:.3f}, chosen on {chosen['chosen_on']}.")
    if facts["unknowns"] is not None:
        say(unknowns_text(facts["unknowns"]))
